"""What administrators ask: bandits, arms, the log, models and keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from syndicated.client._flows import Flow, Rows, Send, Wire, decode, of_bandit, part
from syndicated.features import Arm


class Admin(Wire):
    """These verbs as flows. Replies are JSON as the API's pages describe it."""

    def create(self, bandit: str, spec: Mapping[str, Any]) -> Flow[dict[str, Any]]:
        """A new bandit."""
        return self._json("POST", "/v1/bandits", {"name": bandit, "spec": spec}, repeatable=False)

    def update(self, bandit: str, changes: Mapping[str, Any]) -> Flow[dict[str, Any]]:
        """Change parts of a bandit's spec."""
        return self._json("PATCH", of_bandit(bandit), changes)

    def get(self, bandit: str) -> Flow[dict[str, Any]]:
        """A bandit as it is now."""
        return self._json("GET", of_bandit(bandit))

    def list(self) -> Flow[Rows]:
        """All bandits."""
        return self._rows("/v1/bandits")

    def retire(self, bandit: str) -> Flow[None]:
        """Let a bandit decide no more."""
        yield from self._ask(Send("DELETE", of_bandit(bandit)))

    def arms(self, bandit: str) -> Flow[Rows]:
        """The registered arms."""
        return self._rows(f"{of_bandit(bandit)}/arms")

    def put_arms(self, bandit: str, arms: Iterable[Arm | Mapping[str, Any]]) -> Flow[dict[str, Any]]:
        """Register arms, or change them."""
        return self._json("PUT", f"{of_bandit(bandit)}/arms", {"arms": [*arms]})

    def drop_arm(self, bandit: str, arm: str) -> Flow[None]:
        """Forget a registered arm."""
        yield from self._ask(Send("DELETE", f"{of_bandit(bandit)}/arms/{part(arm)}", repeatable=False))

    def decision(self, bandit: str, decision_id: str) -> Flow[dict[str, Any]]:
        """A decision, and what was said about it."""
        return self._json("GET", f"{of_bandit(bandit)}/decisions/{part(decision_id)}")

    def export(self, bandit: str, after: int = 0, limit: int = 10_000) -> Flow[Rows]:
        """Lines of a bandit's log behind a sequence number; the last one's `seq` is the next `after`."""
        send = Send("GET", f"{of_bandit(bandit)}/log?after={after}&limit={limit}&format=jsonl")
        response = yield from self._ask(send)
        return [decode(response, dict[str, Any], line) for line in response.content.splitlines()]

    def models(self, bandit: str) -> Flow[Rows]:
        """The kept models of a bandit."""
        return self._rows(f"{of_bandit(bandit)}/models")

    def keep_model(self, bandit: str) -> Flow[dict[str, Any]]:
        """Keep the model as it is now."""
        return self._json("POST", f"{of_bandit(bandit)}/models")

    def model(self, bandit: str, version: int | None = None) -> Flow[bytes]:
        """The model as it is now, or a kept one: the content of a file."""
        response = yield from self._ask(Send("GET", f"{of_bandit(bandit)}/models/{version or 'current'}"))
        return response.content

    def load_model(self, bandit: str, model: bytes) -> Flow[dict[str, Any]]:
        """Go on from what `model` gave."""
        send = Send("PUT", f"{of_bandit(bandit)}/models/current", model, "application/octet-stream")
        response = yield from self._ask(send)
        return decode(response, dict[str, Any])

    def restore_model(self, bandit: str, version: int) -> Flow[dict[str, Any]]:
        """Go back to a kept model."""
        return self._json("POST", f"{of_bandit(bandit)}/models/{version}/restore")

    def keys(self) -> Flow[Rows]:
        """All keys, without their secrets."""
        return self._rows("/v1/keys")

    def create_key(self, name: str, scopes: Sequence[str]) -> Flow[dict[str, Any]]:
        """A new key; this reply alone has its secret."""
        return self._json("POST", "/v1/keys", {"name": name, "scopes": [*scopes]}, repeatable=False)

    def revoke_key(self, id_: str) -> Flow[None]:
        """Let a key open nothing any more."""
        yield from self._ask(Send("DELETE", f"/v1/keys/{part(id_)}"))
