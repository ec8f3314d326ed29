"""Decisions and rewards: what is sent, what is played without a service, and the rewards that wait."""

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import numpy as np
from msgspec import Struct

from syndicated._validation import check_arms, check_count, check_number, shorten
from syndicated.client._admin import Admin
from syndicated.client._flows import Flow, Send, decode, encode, of_bandit, pause
from syndicated.client.errors import Refused, Unavailable
from syndicated.errors import InputError
from syndicated.features import Arm
from syndicated.features.binary import join_body
from syndicated.types import Array

BINARY = 200  # arms from which a table goes as a binary body
REMEMBERED = 100  # refused rewards

log = logging.getLogger("syndicated.client")

Arms = Sequence[str | Arm | Mapping[str, Any]] | Array
Context = Sequence[float] | Mapping[str, Any] | Array


class Answer(Struct, frozen=True, kw_only=True):
    """The arm to play. Without a service it is the default arm: `by` is "client", and there is no `decision_id`."""

    decision_id: str | None
    arm: str
    propensity: float
    by: str
    version: int = 0
    epoch: int = 0
    params: dict[str, float] = {}
    repeated: bool = False


class Reward(NamedTuple):
    """A reward that waits to be sent."""

    bandit: str
    decision_id: str
    reward: float
    event_id: str


class Calls(Admin):
    """All verbs as flows, and the rewards that wait."""

    def __init__(self, url: str, key: str, *, default: str | None = None, buffer: int = 10_000, **how: Any) -> None:
        super().__init__(url, key, **how)
        self.default = default
        self.refused: deque[tuple[Reward, Refused]] = deque(maxlen=REMEMBERED)
        self._rewards: deque[Reward] = deque()
        self._most = check_count("buffer", buffer)
        self._failures = 0
        self._full = self._away = False

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
        default: str | None = None,
    ) -> Flow[Answer]:
        """The arm to play: one of `arms` (ids, objects, or a table with `ids`), or of the registered ones.

        Every call has an event_id, so that one that is repeated gives the same decision. While the service stays away
        the arm is `default`, or `played`, or the client's default if it is among the arms, or the first of them.
        """
        listed, table, names = _arms(arms, ids)
        fallback = self._fallback(names, default or played)
        head = {"arms": listed, "context": context, "event_id": event_id or uuid4().hex, "subject": subject}
        head |= {"played": played, "deferred": deferred}
        send = _decide(bandit, {name: value for name, value in head.items() if value is not None}, table)
        try:
            response = yield from self._ask(send, retries=0 if self._away else None)
        except Unavailable as error:
            if fallback is None:
                raise
            self._count("defaults")
            if not self._away:
                log.warning("default arms are played: %s", error)
            self._away = True
            return Answer(decision_id=None, arm=fallback, propensity=1.0, by="client")
        self._away = False
        return decode(response, Answer)

    def _fallback(self, names: Sequence[str] | None, default: str | None) -> str | None:
        if names is None:
            return default or self.default
        if default is not None and default not in names:
            raise InputError(f"default and played must be one of the arms; got {shorten(default)}")
        return default or (self.default if self.default in names else names[0])

    def activate(self, bandit: str, decision: Answer | str) -> Flow[str | None]:
        """Say that a deferred decision was carried out, and learn what became of it; None for a default arm."""
        id_ = self._id(decision)
        if id_ is None:
            return None
        reply = yield from self._json("POST", f"{of_bandit(bandit)}/activate", {"decision_id": id_})
        return str(reply.get("outcome"))

    def reward_now(
        self, bandit: str, decision: Answer | str, reward: float, event_id: str | None = None
    ) -> Flow[str | None]:
        """Send a reward before those that wait, and learn what became of it; None for a default arm."""
        item = self._reward(bandit, decision, reward, event_id)
        if item is None:
            return None
        response = yield from self._ask(_send(item))
        return str(decode(response, dict[str, Any]).get("outcome"))

    # rewards that wait

    @property
    def waiting(self) -> int:
        """How many rewards wait to be sent."""
        return len(self._rewards)

    def queue(self, bandit: str, decision: Answer | str, reward: float, event_id: str | None = None) -> None:
        """Keep a reward to be sent; that of a default arm is only counted."""
        item = self._reward(bandit, decision, reward, event_id)
        if item is None:
            return
        with self.lock:
            self._rewards.append(item)
            full = len(self._rewards) > self._most
            if full:
                self._rewards.popleft()
                self.counts["dropped"] += 1
        if full and not self._full:
            log.warning("%d rewards wait; the oldest are dropped from now on", self._most)
        self._full = full

    def deliver(self, until: float | None = None) -> Flow[float]:
        """Send the reward that has waited longest, once: 0, or, if in vain, the seconds to wait before the next try."""
        with self.lock:
            item = self._rewards[0] if self._rewards else None
        if item is None:
            return 0.0
        try:
            yield from self._ask(_send(item), until, retries=0)
            self._count("sent")
        except Unavailable as error:
            self._failures += 1
            return max(error.wait, pause(self._failures - 1))
        except Refused as error:
            self._count("refused")
            self.refused.append((item, error))
            log.warning("a reward of %s was refused: %s", item.bandit, error)
        self._failures = 0
        with self.lock:
            if self._rewards and self._rewards[0] is item:
                self._rewards.popleft()
        return 0.0

    def flush(self, seconds: float) -> Flow[int]:
        """Send all that waits, for so many seconds at most; how many still wait."""
        until = self.clock() + seconds
        while self._rewards:
            wait = yield from self.deliver(until)
            if self.clock() + wait >= until:
                break
            if wait:
                yield wait
        return len(self._rewards)

    def give_up(self) -> None:
        """Drop what still waits."""
        with self.lock:
            lost = len(self._rewards)
            self._rewards.clear()
            self.counts["dropped"] += lost
        if lost:
            log.warning("%d rewards could not be sent and are lost", lost)

    def _reward(self, bandit: str, decision: Answer | str, reward: float, event_id: str | None) -> Reward | None:
        of_bandit(bandit)
        value = check_number("reward", reward)
        id_ = self._id(decision)
        return None if id_ is None else Reward(bandit, id_, value, event_id or uuid4().hex)

    def _id(self, decision: Answer | str) -> str | None:
        """The id of a decision; a default arm has none, and what is said of it is counted."""
        id_ = decision.decision_id if isinstance(decision, Answer) else decision
        if id_ is None:
            self._count("unrewarded")
        elif not isinstance(id_, str):
            raise InputError(f"a decision must be what decide gave, or its decision_id; got {shorten(decision)}")
        return id_


def _decide(bandit: str, head: Mapping[str, Any], table: Array | None) -> Send:
    path = f"{of_bandit(bandit)}/decide"
    if table is None:
        return Send("POST", path, encode(head))
    body = join_body(msgspec.json.decode(encode(head)), table)
    return Send("POST", path, body, "application/x-syndicated")


def _send(item: Reward) -> Send:
    body = {"decision_id": item.decision_id, "reward": item.reward, "event_id": item.event_id}
    return Send("POST", f"{of_bandit(item.bandit)}/reward", encode(body))


def _arms(arms: Arms | None, ids: Sequence[str] | None) -> tuple[Any, Array | None, Sequence[str] | None]:
    """A request's arms as JSON has them, the table of a binary body, and the arms' ids if they are known here."""
    if ids is not None and not isinstance(arms, np.ndarray):
        raise InputError(f"ids are for arms that are a table, an array of rows; got arms {shorten(arms)}")
    if arms is None:
        return None, None, None
    if not isinstance(arms, np.ndarray):
        listed = [*arms]
        if not listed:
            raise InputError("arms must be a list of at least one arm; got []")
        return listed, None, [_name(arm) for arm in listed]
    table = check_arms(arms, arms.shape[-1] if arms.ndim else 0)
    names = [str(k) for k in range(len(table))] if ids is None else [*ids]
    if len(names) != len(table):
        raise InputError(f"ids must be one for each of {len(table)} rows; got {len(names)}")
    if len(table) < BINARY:
        return [{"id": name, "x": x} for name, x in zip(names, table.tolist(), strict=True)], None, names
    return None if ids is None else names, table, names


def _name(arm: str | Arm | Mapping[str, Any]) -> str:
    id_ = arm.id if isinstance(arm, Arm) else arm.get("id") if isinstance(arm, Mapping) else arm
    if not isinstance(id_, str):
        raise InputError(f"an arm must be an id or have one; got {shorten(arm)}")
    return id_
