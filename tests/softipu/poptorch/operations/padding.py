"""Padding."""

import torch.nn.functional as F
from torch import nn

from tests.softipu.poptorch.operations.example import IMAGE, SEQUENCE, VOLUME, Table, ex, layer

PADDING: Table = {
    "nn.ReflectionPad1d": layer(lambda: nn.ReflectionPad1d(2), SEQUENCE),
    "nn.ReflectionPad2d": layer(lambda: nn.ReflectionPad2d(1), IMAGE),
    "nn.ReplicationPad1d": layer(lambda: nn.ReplicationPad1d(2), SEQUENCE),
    "nn.ReplicationPad2d": layer(lambda: nn.ReplicationPad2d(1), IMAGE),
    "nn.ReplicationPad3d": layer(lambda: nn.ReplicationPad3d(1), VOLUME),
    "nn.ZeroPad2d": layer(lambda: nn.ZeroPad2d(1), IMAGE),
    "nn.ConstantPad1d": layer(lambda: nn.ConstantPad1d(1, 0.5), SEQUENCE),
    "nn.ConstantPad2d": layer(lambda: nn.ConstantPad2d(1, 0.5), IMAGE),
    "nn.ConstantPad3d": layer(lambda: nn.ConstantPad3d(1, 0.5), VOLUME),
}

PADDING_VARIANTS: Table = {
    "nn.ReflectionPad1d, unevenly": layer(lambda: nn.ReflectionPad1d((3, 1)), SEQUENCE),
    "nn.ReflectionPad2d, unevenly": layer(lambda: nn.ReflectionPad2d((3, 2, 1, 0)), IMAGE),
    "nn.ReflectionPad3d": layer(lambda: nn.ReflectionPad3d((1, 2, 3, 0, 1, 1)), VOLUME),
    "nn.ReplicationPad2d, unevenly": layer(lambda: nn.ReplicationPad2d((3, 2, 1, 0)), IMAGE),
    "nn.ReplicationPad3d, unevenly": layer(lambda: nn.ReplicationPad3d((3, 2, 1, 0, 2, 1)), VOLUME),
    "nn.ConstantPad3d, unevenly": layer(lambda: nn.ConstantPad3d((3, 2, 1, 0, 2, 1), 0.25), VOLUME),
    "nn.functional.pad": ex(lambda a: F.pad(a, (1, 2)), IMAGE),
    "nn.functional.pad, every dimension": ex(lambda a: F.pad(a, (1, 2, 2, 1, 0, 1, 1, 0)), IMAGE),
    "nn.functional.pad, cut": ex(lambda a: F.pad(a, (-1, 1, 0, -2)), IMAGE),
    "nn.functional.pad, around the ring": ex(lambda a: F.pad(a, (2, 1, 1, 2), mode="circular"), IMAGE),
}
