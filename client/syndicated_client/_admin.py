"""Administration: bandits, arms, the log, models and keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from syndicated_client._flows import BaseFlows, Flow, Request, Rows, bandit_path, decode, path_segment


class AdminFlows(BaseFlows):
    """Administrative calls as flows. Replies are JSON as the API documentation describes it."""

    def create(self, bandit: str, spec: Mapping[str, Any] | None = None) -> Flow[dict[str, Any]]:
        """Create a bandit; without a spec, one for any context and arms that are known by their ids."""
        return self._json("POST", "/v1/bandits", {"name": bandit, "spec": spec or {}}, repeatable=False)

    def update(self, bandit: str, changes: Mapping[str, Any], *, relearn: bool = False) -> Flow[dict[str, Any]]:
        """Change parts of a bandit's spec. With `relearn` a new model first learns again what the log has."""
        return self._json("PATCH", bandit_path(bandit) + ("?relearn=true" if relearn else ""), changes)

    def get(self, bandit: str) -> Flow[dict[str, Any]]:
        """A bandit as it is now."""
        return self._json("GET", bandit_path(bandit))

    def list(self) -> Flow[Rows]:
        """All bandits."""
        return self._rows("/v1/bandits")

    def retire(self, bandit: str) -> Flow[None]:
        """Retire a bandit: it accepts rewards but makes no more decisions."""
        yield from self._ask(Request("DELETE", bandit_path(bandit)))

    def arms(self, bandit: str) -> Flow[Rows]:
        """The registered arms."""
        return self._rows(f"{bandit_path(bandit)}/arms")

    def numbers(self, bandit: str) -> Flow[Rows]:
        """How often every arm was played in this epoch, its rewards, their mean and its standard error."""
        return self._rows(f"{bandit_path(bandit)}/numbers")

    def put_arms(self, bandit: str, arms: Iterable[object]) -> Flow[dict[str, Any]]:
        """Register arms, or change them."""
        return self._json("PUT", f"{bandit_path(bandit)}/arms", {"arms": [*arms]})

    def drop_arm(self, bandit: str, arm: str) -> Flow[None]:
        """Remove an arm, and free its model."""
        yield from self._ask(Request("DELETE", f"{bandit_path(bandit)}/arms/{path_segment(arm)}", repeatable=False))

    def decision(self, bandit: str, decision_id: str) -> Flow[dict[str, Any]]:
        """A decision and the events about it."""
        return self._json("GET", f"{bandit_path(bandit)}/decisions/{path_segment(decision_id)}")

    def export(self, bandit: str, after: int = 0, limit: int = 10_000) -> Flow[Rows]:
        """Lines of a bandit's log after a sequence number. The last line's `seq` is the next `after`."""
        request = Request("GET", f"{bandit_path(bandit)}/log?after={after}&limit={limit}&format=jsonl")
        response = yield from self._ask(request)
        return [decode(response, dict[str, Any], line) for line in response.content.splitlines()]

    def models(self, bandit: str) -> Flow[Rows]:
        """The kept models of a bandit."""
        return self._rows(f"{bandit_path(bandit)}/models")

    def keep_model(self, bandit: str) -> Flow[dict[str, Any]]:
        """Keep the model as it is now, to go back to it later."""
        return self._json("POST", f"{bandit_path(bandit)}/models")

    def model(self, bandit: str, version: int | None = None) -> Flow[bytes]:
        """The model as it is now, or a kept one, as the bytes of a file."""
        response = yield from self._ask(Request("GET", f"{bandit_path(bandit)}/models/{version or 'current'}"))
        return response.content

    def load_model(self, bandit: str, model: bytes) -> Flow[dict[str, Any]]:
        """Continue from a model that `model` returned."""
        request = Request("PUT", f"{bandit_path(bandit)}/models/current", model, "application/octet-stream")
        response = yield from self._ask(request)
        return decode(response, dict[str, Any])

    def restore_model(self, bandit: str, version: int) -> Flow[dict[str, Any]]:
        """Go back to a kept model."""
        return self._json("POST", f"{bandit_path(bandit)}/models/{version}/restore")

    def keys(self) -> Flow[Rows]:
        """All keys, without their secrets."""
        return self._rows("/v1/keys")

    def create_key(self, name: str, scopes: Sequence[str]) -> Flow[dict[str, Any]]:
        """Create a key. Only this reply has its secret."""
        return self._json("POST", "/v1/keys", {"name": name, "scopes": [*scopes]}, repeatable=False)

    def revoke_key(self, id_: str) -> Flow[None]:
        """Revoke a key."""
        yield from self._ask(Request("DELETE", f"/v1/keys/{path_segment(id_)}"))
