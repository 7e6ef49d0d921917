"""The rule of every optimizer that a device runs."""

from typing import Dict

from softipu.capture.update.adam import ADAM
from softipu.capture.update.lamb import LAMB
from softipu.capture.update.rmsprop import RMSPROP
from softipu.capture.update.rule import Rule
from softipu.capture.update.sgd import SGD

RULES: Dict[str, Rule] = {"SGD": SGD, "Adam": ADAM, "AdamW": ADAM, "RMSprop": RMSPROP, "LAMB": LAMB}
