"""The bottom layer's registry: to add a policy, write its file and import it here."""

from syndicated.policies.armts import ArmTS as ArmTS
from syndicated.policies.armucb import ArmUCB as ArmUCB
from syndicated.policies.base import Policy as Policy
from syndicated.policies.diagonalts import DiagonalTS as DiagonalTS
from syndicated.policies.diagonalucb import DiagonalUCB as DiagonalUCB
from syndicated.policies.dlinucb import DLinUCB as DLinUCB
from syndicated.policies.epsilongreedy import EpsilonGreedy as EpsilonGreedy
from syndicated.policies.glmtsl import GLMTSL as GLMTSL
from syndicated.policies.glmucb import GLMUCB as GLMUCB
from syndicated.policies.gloc import GLOC as GLOC
from syndicated.policies.gpts import GPTS as GPTS
from syndicated.policies.gradientlaplacets import GradientLaplaceTS as GradientLaplaceTS
from syndicated.policies.igpucb import IGPUCB as IGPUCB
from syndicated.policies.laplacets import LaplaceTS as LaplaceTS
from syndicated.policies.lints import LinTS as LinTS
from syndicated.policies.linucb import LinUCB as LinUCB
from syndicated.policies.neuralts import NeuralTS as NeuralTS
from syndicated.policies.neuralucb import NeuralUCB as NeuralUCB
from syndicated.policies.regcb import RegCB as RegCB
from syndicated.policies.sgdts import SGDTS as SGDTS
from syndicated.policies.squarecb import SquareCB as SquareCB
from syndicated.policies.swlinucb import SWLinUCB as SWLinUCB
from syndicated.policies.ucbglm import UCBGLM as UCBGLM
from syndicated.registry import Registry

PEERS = dict.fromkeys(("MABWiserPolicy", "RiverPolicy", "VowpalWabbitPolicy"), "syndicated.policies._peers")
POLICIES = Registry(__name__, Policy, globals(), unlisted=PEERS)
__all__ = ["POLICIES", "Policy"]
