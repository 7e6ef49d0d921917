"""Normalisation layers."""

from torch import nn

from tests.softipu.poptorch.operations.example import BATCH, IMAGE, SEQUENCE, VOLUME, A, Table, layer, x

NORMALISATION: Table = {
    "nn.BatchNorm1d": layer(lambda: nn.BatchNorm1d(4), x(6, 4)),
    "nn.BatchNorm2d": layer(lambda: nn.BatchNorm2d(3), IMAGE),
    "nn.BatchNorm3d": layer(lambda: nn.BatchNorm3d(2), VOLUME),
    "nn.LayerNorm": layer(lambda: nn.LayerNorm(4), A),
    "nn.GroupNorm": layer(lambda: nn.GroupNorm(3, 6), x(2, 6, 4)),
    "nn.InstanceNorm1d": layer(lambda: nn.InstanceNorm1d(3, affine=True), SEQUENCE),
    "nn.InstanceNorm2d": layer(lambda: nn.InstanceNorm2d(3, affine=True), IMAGE),
    "nn.InstanceNorm3d": layer(lambda: nn.InstanceNorm3d(2, affine=True), VOLUME),
    "nn.utils.weight_norm": layer(lambda: nn.utils.weight_norm(nn.Linear(4, 3)), A),
}

NORMALISATION_VARIANTS: Table = {
    "nn.BatchNorm1d, averaging": layer(lambda: nn.BatchNorm1d(3, momentum=None), SEQUENCE),
    "nn.BatchNorm1d, without weights": layer(lambda: nn.BatchNorm1d(4, affine=False), x(6, 4)),
    "nn.BatchNorm2d, outside training": layer(lambda: nn.BatchNorm2d(3).eval(), IMAGE),
    "nn.BatchNorm2d, without statistics": layer(lambda: nn.BatchNorm2d(3, track_running_stats=False), IMAGE),
    "nn.BatchNorm2d, without statistics outside training": layer(lambda: nn.BatchNorm2d(3, track_running_stats=False).eval(), IMAGE),
    "nn.BatchNorm3d, without weights": layer(lambda: nn.BatchNorm3d(2, affine=False), VOLUME),
    "nn.LayerNorm, of two dimensions": layer(lambda: nn.LayerNorm((3, 4)), BATCH),
    "nn.LayerNorm, without weights": layer(lambda: nn.LayerNorm((6,), elementwise_affine=False), IMAGE),
    "nn.GroupNorm, of rows": layer(lambda: nn.GroupNorm(2, 6), x(3, 6)),
    "nn.GroupNorm, without weights": layer(lambda: nn.GroupNorm(3, 3, affine=False), IMAGE),
    "nn.GroupNorm, one group": layer(lambda: nn.GroupNorm(1, 2), VOLUME),
    "nn.InstanceNorm1d, without weights": layer(lambda: nn.InstanceNorm1d(3), SEQUENCE),
    "nn.InstanceNorm2d, with statistics": layer(lambda: nn.InstanceNorm2d(3, track_running_stats=True), IMAGE),
    "nn.LocalResponseNorm": layer(lambda: nn.LocalResponseNorm(2), IMAGE),
    "nn.utils.weight_norm, of columns": layer(lambda: nn.utils.weight_norm(nn.Linear(4, 3), dim=1), A),
    "nn.utils.weight_norm, of the whole": layer(lambda: nn.utils.weight_norm(nn.Linear(4, 3), dim=None), A),
}
