"""The worlds' registry: to add an environment, write its file and import it here."""

from syndicated.environments.arm_set import LinearArmSet as LinearArmSet
from syndicated.environments.base import Environment as Environment
from syndicated.environments.base import Round as Round
from syndicated.environments.contexts import Contexts as Contexts
from syndicated.environments.movielens import MovieLens as MovieLens
from syndicated.environments.simulation import Linear as Linear
from syndicated.environments.simulation import Logistic as Logistic
from syndicated.environments.simulation import Revenue as Revenue
from syndicated.registry import Registry

ENVIRONMENTS = Registry(__name__, Environment, globals())
__all__ = [
    "ENVIRONMENTS",
    "Contexts",
    "Environment",
    "Linear",
    "LinearArmSet",
    "Logistic",
    "MovieLens",
    "Revenue",
    "Round",
]
