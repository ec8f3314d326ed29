"""Who made a decision, in the words of the log (`by`), and what follows from it."""

from typing import Literal

By = Literal["agent", "warmup", "floor", "holdout", "fallback", "caller"]

BY_THE_BANDIT: tuple[By, ...] = ("agent", "warmup", "floor")  # its tuner and policy, random rounds, the floor
BY_OTHERS: tuple[By, ...] = ("holdout", "fallback", "caller")  # in the bandit's place
COUNTED: tuple[By, ...] = (*BY_THE_BANDIT, "caller")  # decisions that the model learns from
