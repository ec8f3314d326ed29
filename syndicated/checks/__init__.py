"""Checks for what you add: sentences that every policy, tuner and environment must make true.

A check takes `make`, a factory of fresh instances, and raises AssertionError with the reason where its sentence is
false. For a policy, `make` is its class (it is called with `dim` and `intercept`); for a tuner, `on_space(its class)`
(called with a Space); for an environment, its class, with whatever arguments keep it small. A policy that keeps models
of arms has `ARM_POLICY_CHECKS` besides.

>>> from syndicated.policies import LinUCB
>>> for check in POLICY_CHECKS:
...     check(LinUCB)

>>> class Forgetful(LinUCB):
...     def learn(self, x, reward, params):
...         pass
>>> by_name = {check.__name__: check for check in POLICY_CHECKS}
>>> by_name["learning_changes_the_state"](Forgetful)
Traceback (most recent call last):
AssertionError: learn left the state as it was
"""

from syndicated.checks._arm_policies import ARM_POLICY_CHECKS
from syndicated.checks._environments import ENVIRONMENT_CHECKS
from syndicated.checks._policies import POLICY_CHECKS
from syndicated.checks._tuners import TUNER_CHECKS, on_space

__all__ = ["ARM_POLICY_CHECKS", "ENVIRONMENT_CHECKS", "POLICY_CHECKS", "TUNER_CHECKS", "on_space"]
