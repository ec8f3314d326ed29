"""Decisions and rewards: requests, the default arm when the service is unavailable, and the queue of rewards."""

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast
from uuid import uuid4

import msgspec
from msgspec import Struct

from syndicated_client._admin import AdminFlows
from syndicated_client._errors import InputError, Refused, Unavailable
from syndicated_client._flows import Flow, Request, backoff, bandit_path, decode, encode
from syndicated_client._tables import Array, Table, check_table, frame_arms, is_array, is_data_frame, join_body
from syndicated_client._validation import check_count, check_number, shorten

MIN_BINARY_ARMS = 200  # a table of at least so many arms is sent as a binary body
MAX_REFUSED = 100  # of which the client keeps the error

log = logging.getLogger("syndicated.client")


class ArmWithId(Protocol):
    """An arm as an object that JSON can carry, such as a dataclass."""

    @property
    def id(self) -> str: ...


Arms = Sequence[str | ArmWithId | Mapping[str, Any]] | Array
Context = Sequence[float] | Mapping[str, Any] | Array


class Answer(Struct, frozen=True, kw_only=True):
    """The arm to play. If the service is unavailable it is the default arm: `by` is "client", `decision_id` is None."""

    decision_id: str | None
    arm: str
    propensity: float
    by: str
    version: int = 0
    epoch: int = 0
    params: dict[str, float] = {}
    repeated: bool = False
    ranking: list[dict[str, Any]] = []


class QueuedReward(NamedTuple):
    """A reward in the queue."""

    bandit: str
    decision_id: str
    reward: float
    event_id: str


class Flows(AdminFlows):
    """All calls as flows, and the queue of rewards."""

    def __init__(self, url: str, key: str, *, default: str | None = None, buffer: int = 10_000, **how: Any) -> None:
        super().__init__(url, key, **how)
        self.default = default
        self.refused: deque[tuple[QueuedReward, Refused]] = deque(maxlen=MAX_REFUSED)
        self._rewards: deque[QueuedReward] = deque()
        self._buffer_size = check_count("buffer", buffer)
        self._failed_tries = 0
        self._dropping = self._unavailable = False

    def decide(
        self,
        bandit: str,
        arms: Arms | None = None,
        context: Context | None = None,
        event_id: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        subject: str | None = None,
        played: str | None = None,
        deferred: bool | None = None,
        k: int | None = None,
        default: str | None = None,
    ) -> Flow[Answer]:
        """The arm to play: one of `arms` (ids, objects, or a table with `ids`), or one of the registered arms.

        With `k`, the answer's `ranking` has so many arms: that to play, then those with the best scores.

        Every call has an event_id, so that a retry gets the same decision. While the service is unavailable, the arm is
        `default`, or `played`, or the client's default if it is among the arms, or the first of the arms.
        """
        listed, table, names = _arms(arms, ids)
        fallback = self._fallback(names, default or played)
        head = {"arms": listed, "context": context, "event_id": event_id or uuid4().hex, "subject": subject}
        head |= {"played": played, "deferred": deferred, "k": k}
        request = _decide_request(bandit, {name: value for name, value in head.items() if value is not None}, table)
        try:
            response = yield from self._ask(request, retries=0 if self._unavailable else None)
        except Unavailable as error:
            if fallback is None:
                raise
            self._count("defaults")
            if not self._unavailable:
                log.warning("default arms are played: %s", error)
            self._unavailable = True
            return Answer(decision_id=None, arm=fallback, propensity=1.0, by="client")
        self._unavailable = False
        return decode(response, Answer)

    def _fallback(self, names: Sequence[str] | None, default: str | None) -> str | None:
        if names is None:
            return default or self.default
        if default is not None and default not in names:
            raise InputError(f"default and played must be one of the arms; got {shorten(default)}")
        return default or (self.default if self.default in names else names[0])

    def activate(self, bandit: str, decision: Answer | str) -> Flow[str | None]:
        """Tell the service that a deferred decision was played. Returns the outcome; None for a default arm."""
        id_ = self._id(decision)
        if id_ is None:
            return None
        reply = yield from self._json("POST", f"{bandit_path(bandit)}/activate", {"decision_id": id_})
        return str(reply.get("outcome"))

    def reward_now(
        self, bandit: str, decision: Answer | str, reward: float, event_id: str | None = None
    ) -> Flow[str | None]:
        """Send a reward at once, ahead of the queue. Returns the outcome; None for a default arm."""
        item = self._reward(bandit, decision, reward, event_id)
        if item is None:
            return None
        response = yield from self._ask(_reward_request(item))
        return str(decode(response, dict[str, Any]).get("outcome"))

    # the queue of rewards

    @property
    def waiting(self) -> int:
        """The number of rewards in the queue."""
        return len(self._rewards)

    def queue(self, bandit: str, decision: Answer | str, reward: float, event_id: str | None = None) -> None:
        """Put a reward into the queue. A reward for a default arm is counted and dropped."""
        item = self._reward(bandit, decision, reward, event_id)
        if item is None:
            return
        with self.lock:
            self._rewards.append(item)
            full = len(self._rewards) > self._buffer_size
            if full:
                self._rewards.popleft()
                self.counts["dropped"] += 1
        if full and not self._dropping:
            log.warning("%d rewards are waiting; from now on the oldest are dropped", self._buffer_size)
        self._dropping = full

    def deliver(self, until: float | None = None) -> Flow[float]:
        """Try once to send the oldest reward. Returns the seconds to wait before the next try, 0 if it was answered."""
        with self.lock:
            item = self._rewards[0] if self._rewards else None
        if item is None:
            return 0.0
        try:
            yield from self._ask(_reward_request(item), until, retries=0)
            self._count("sent")
        except Unavailable as error:
            self._failed_tries += 1
            return max(error.wait, backoff(self._failed_tries - 1))
        except Refused as error:
            self._count("refused")
            self.refused.append((item, error))
            log.warning("a reward of %s was refused: %s", item.bandit, error)
        self._failed_tries = 0
        with self.lock:
            if self._rewards and self._rewards[0] is item:
                self._rewards.popleft()
        return 0.0

    def flush(self, seconds: float) -> Flow[int]:
        """Send the queue, for at most so many seconds. Returns how many rewards are left in it."""
        until = self.clock() + seconds
        while self._rewards:
            wait = yield from self.deliver(until)
            if self.clock() + wait >= until:
                break
            if wait:
                yield wait
        return len(self._rewards)

    def drop_waiting(self) -> None:
        """Drop what is left in the queue."""
        with self.lock:
            lost = len(self._rewards)
            self._rewards.clear()
            self.counts["dropped"] += lost
        if lost:
            log.warning("%d rewards could not be sent and are lost", lost)

    def _reward(self, bandit: str, decision: Answer | str, reward: float, event_id: str | None) -> QueuedReward | None:
        bandit_path(bandit)
        value = check_number("reward", reward)
        id_ = self._id(decision)
        return None if id_ is None else QueuedReward(bandit, id_, value, event_id or uuid4().hex)

    def _id(self, decision: Answer | str) -> str | None:
        """The id of a decision. A default arm has none, and its reward is counted as dropped."""
        id_ = decision.decision_id if isinstance(decision, Answer) else decision
        if id_ is None:
            self._count("unrewarded")
        elif not isinstance(id_, str):
            raise InputError(f"a decision must be what decide returned, or its decision_id; got {shorten(decision)}")
        return id_


def _decide_request(bandit: str, head: Mapping[str, Any], table: Table | None) -> Request:
    path = f"{bandit_path(bandit)}/decide"
    if table is None:
        return Request("POST", path, encode(head))
    body = join_body(msgspec.json.decode(encode(head)), table)
    return Request("POST", path, body, "application/x-syndicated")


def _reward_request(item: QueuedReward) -> Request:
    body = {"decision_id": item.decision_id, "reward": item.reward, "event_id": item.event_id}
    return Request("POST", f"{bandit_path(item.bandit)}/reward", encode(body))


def _arms(arms: Arms | None, ids: Sequence[str] | None) -> tuple[Any, Table | None, Sequence[str] | None]:
    """The arms for JSON, the table for a binary body, and the ids of the arms if they are known here."""
    if is_data_frame(arms):
        arms = cast(Arms, frame_arms(arms))
    if ids is not None and not is_array(arms):
        raise InputError(f"ids need arms that are a table, an array of rows; got arms {shorten(arms)}")
    if arms is None:
        return None, None, None
    if isinstance(arms, str):  # its letters would be taken for arms
        raise InputError(f"arms must be a list of arms; got {shorten(arms)}")
    if not is_array(arms):
        listed = [*arms]
        if not listed:
            raise InputError("arms must be a list of at least one arm; got []")
        return listed, None, [_arm_id(arm) for arm in listed]
    table = check_table(arms)
    names = [str(k) for k in range(len(table))] if ids is None else [*ids]
    if len(names) != len(table):
        raise InputError(f"ids must be one for each of {len(table)} rows; got {len(names)}")
    if len(table) < MIN_BINARY_ARMS:
        return [{"id": name, "x": x} for name, x in zip(names, table.tolist(), strict=True)], None, names
    return None if ids is None else names, table, names


def _arm_id(arm: str | ArmWithId | Mapping[str, Any]) -> str:
    id_ = arm if isinstance(arm, str) else arm.get("id") if isinstance(arm, Mapping) else getattr(arm, "id", None)
    if not isinstance(id_, str):
        raise InputError(f"an arm must be an id, which is a text, or have one; got {shorten(arm)}")
    return id_
