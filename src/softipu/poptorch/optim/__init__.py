"""poptorch.optim: torch's optimizers with what an IPU needs, and LAMB."""

from softipu.poptorch.optim.adam import Adam
from softipu.poptorch.optim.adamw import AdamW
from softipu.poptorch.optim.lamb import LAMB
from softipu.poptorch.optim.optimizer import Optimizer
from softipu.poptorch.optim.rmsprop import RMSprop
from softipu.poptorch.optim.sgd import SGD
from softipu.poptorch.optim.variable_attributes import VariableAttributes

__all__ = ["LAMB", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "VariableAttributes"]
