"""The top layer's registry: to add a tuner, write its file and import it here."""

from syndicated.registry import Registry
from syndicated.tuners.banditoverbandit import BanditOverBandit as BanditOverBandit
from syndicated.tuners.base import Adaptive as Adaptive
from syndicated.tuners.base import Tuner as Tuner
from syndicated.tuners.cdt import CDT as CDT
from syndicated.tuners.championchallenger import ChampionChallenger as ChampionChallenger
from syndicated.tuners.consensus import Consensus as Consensus
from syndicated.tuners.corral import Corral as Corral
from syndicated.tuners.d3rb import D3RB as D3RB
from syndicated.tuners.ed2rb import ED2RB as ED2RB
from syndicated.tuners.fixed import Fixed as Fixed
from syndicated.tuners.op import OP as OP
from syndicated.tuners.regretbalancing import RegretBalancing as RegretBalancing
from syndicated.tuners.stochasticcorral import StochasticCorral as StochasticCorral
from syndicated.tuners.syndicated import Syndicated as Syndicated
from syndicated.tuners.theory import Theory as Theory
from syndicated.tuners.twolayer import TwoLayer as TwoLayer
from syndicated.tuners.uniform import Uniform as Uniform

TUNERS = Registry(__name__, Tuner, globals())
__all__ = ["TUNERS", "Adaptive", "Tuner"]
