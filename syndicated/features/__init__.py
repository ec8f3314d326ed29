"""What programs have, as tables of numbers: lists, JSON objects and bare ids.

>>> from syndicated.features import Arm, Encoder
>>> encoder = Encoder.from_spec({"kind": "vector", "dim": 2})
>>> encoder.table(None, [Arm("tea", x=[1, 0]), Arm("coffee", x=[0, 1])]).tolist()
[[1.0, 0.0], [0.0, 1.0]]
"""

from syndicated.features._arm import Arm, ArmFields, PreparedArm
from syndicated.features._base import Encoder
from syndicated.features._encoders import Hashed, Ids, Vector
from syndicated.features._fields_encoder import Fields
from syndicated.features._open import Open

__all__ = [
    "Arm",
    "ArmFields",
    "Encoder",
    "Fields",
    "Hashed",
    "Ids",
    "Open",
    "PreparedArm",
    "Vector",
]
