"""The bottom layer's registry: to add a policy, write its file and import it here."""

from syndicated.policies.armts import ArmTS as ArmTS
from syndicated.policies.armucb import ArmUCB as ArmUCB
from syndicated.policies.base import Policy as Policy
from syndicated.policies.diagonalts import DiagonalTS as DiagonalTS
from syndicated.policies.diagonalucb import DiagonalUCB as DiagonalUCB
from syndicated.policies.lints import LinTS as LinTS
from syndicated.policies.linucb import LinUCB as LinUCB
from syndicated.policies.sgdts import SGDTS as SGDTS
from syndicated.policies.ucbglm import UCBGLM as UCBGLM
from syndicated.registry import Registry

POLICIES = Registry(__name__, Policy, globals())
__all__ = ["POLICIES", "Policy"]
