"""Contextual bandits that tune themselves."""

from syndicated.agent import Agent
from syndicated.errors import DataError, InputError, MissingExtraError, StateError, SyndicatedError, TaskError
from syndicated.policies import (
    GLMTSL,
    GLMUCB,
    GLOC,
    SGDTS,
    UCBGLM,
    ArmTS,
    ArmUCB,
    DiagonalTS,
    DiagonalUCB,
    EpsilonGreedy,
    GradientLaplaceTS,
    LaplaceTS,
    LinTS,
    LinUCB,
    RegCB,
    SquareCB,
)
from syndicated.space import Space
from syndicated.tuners import OP, Consensus, Corral, Fixed, Syndicated, Theory, TwoLayer, Uniform
from syndicated.types import Choice, Decision

__version__ = "0.1.0"
__all__ = [
    "GLMTSL",
    "GLMUCB",
    "GLOC",
    "OP",
    "SGDTS",
    "UCBGLM",
    "Agent",
    "ArmTS",
    "ArmUCB",
    "Choice",
    "Consensus",
    "Corral",
    "DataError",
    "Decision",
    "DiagonalTS",
    "DiagonalUCB",
    "EpsilonGreedy",
    "Fixed",
    "GradientLaplaceTS",
    "InputError",
    "LaplaceTS",
    "LinTS",
    "LinUCB",
    "MissingExtraError",
    "RegCB",
    "Space",
    "SquareCB",
    "StateError",
    "Syndicated",
    "SyndicatedError",
    "TaskError",
    "Theory",
    "TwoLayer",
    "Uniform",
]
