"""PopTorch 3.4's public API on the software IPU."""

from softipu.errors import Error, RecoverableError, UnrecoverableError
from softipu.poptorch.compile_hooks import registerPostCompileHook, registerPreCompileHook
from softipu.poptorch.device import ipuHardwareIsAvailable, ipuHardwareVersion, isRunningOnIpu
from softipu.poptorch.enums import *  # noqa: F403
from softipu.poptorch.executor import PoplarExecutor, inferenceModel, trainingModel
from softipu.poptorch.log import logger, setLogLevel
from softipu.poptorch.loss import identity_loss
from softipu.poptorch.options import ConfigFileError, Options, TensorLocationSettings
