"""The top layer's registry: to add a tuner, write its file and import it here."""

from syndicated.registry import Registry
from syndicated.tuners.base import Adaptive as Adaptive
from syndicated.tuners.base import Tuner as Tuner
from syndicated.tuners.consensus import Consensus as Consensus
from syndicated.tuners.corral import Corral as Corral
from syndicated.tuners.fixed import Fixed as Fixed
from syndicated.tuners.op import OP as OP
from syndicated.tuners.syndicated import Syndicated as Syndicated
from syndicated.tuners.theory import Theory as Theory
from syndicated.tuners.twolayer import TwoLayer as TwoLayer
from syndicated.tuners.uniform import Uniform as Uniform

TUNERS = Registry(__name__, Tuner, globals())
__all__ = ["TUNERS", "Adaptive", "Tuner"]
