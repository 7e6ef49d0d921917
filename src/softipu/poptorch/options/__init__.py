"""PopTorch's options: what a model is compiled for and how it runs."""

from softipu.poptorch.options.config_file import ConfigFileError
from softipu.poptorch.options.distributed import _DistributedOptions
from softipu.poptorch.options.effects import OptionEffect, OptionReport, log_ignored, log_settings, stored_names
from softipu.poptorch.options.ipu_model import check_target
from softipu.poptorch.options.jit import _JitOptions
from softipu.poptorch.options.model_options import Options
from softipu.poptorch.options.popart import _PopartOptions
from softipu.poptorch.options.precision import _PrecisionOptions
from softipu.poptorch.options.tensor_locations import TensorLocationSettings, _TensorLocationOptions
from softipu.poptorch.options.training import _TrainingOptions

__all__ = [
    "ConfigFileError",
    "OptionEffect",
    "OptionReport",
    "Options",
    "TensorLocationSettings",
    "_DistributedOptions",
    "_JitOptions",
    "_PopartOptions",
    "_PrecisionOptions",
    "_TensorLocationOptions",
    "_TrainingOptions",
    "check_target",
    "log_ignored",
    "log_settings",
    "stored_names",
]
