"""What programs have, as tables of numbers: lists, JSON objects and bare ids.

>>> from syndicated.features import Arm, Encoder
>>> encoder = Encoder.from_spec({"kind": "vector", "dim": 2})
>>> encoder.table(None, [Arm("tea", x=[1, 0]), Arm("coffee", x=[0, 1])]).tolist()
[[1.0, 0.0], [0.0, 1.0]]
"""

from syndicated.features._arm import Arm, ArmFields, PreparedArm
from syndicated.features._encoders import Encoder, Hashed, Ids, Vector

__all__ = ["Arm", "ArmFields", "Encoder", "Hashed", "Ids", "PreparedArm", "Vector"]
