"""A model that a bandit is to go on from: all that takes long is done before its event is written."""

from collections.abc import Mapping
from typing import Any

from syndicated.agent import Agent
from syndicated.errors import SyndicatedError
from syndicated.service.core.bandit import Bandit, build_parts
from syndicated.service.core.problems import Problem
from syndicated.service.core.records import encode
from syndicated.store._seal import PackedBody


class ModelLoad(PackedBody):
    """The body of a `load` event, with the agent that the model makes: the fold of this process takes it over."""

    agent: Agent

    @classmethod
    def of(cls, bandit: Bandit, body: Mapping[str, Any]) -> "ModelLoad":
        """The load of a model into a bandit, which must be one of it. On any thread: a spec and ids never change."""
        try:
            _, agent = build_parts(bandit.spec, bandit.agent.id)
            agent.restore(body["model"])
        except SyndicatedError as error:
            raise Problem(422, "invalid", str(error)) from None
        load = cls(encode({**body, "bandit": bandit.id}))
        load.agent = agent
        return load
