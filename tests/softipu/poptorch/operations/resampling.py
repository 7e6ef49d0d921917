"""Images of another size."""

import torch.nn.functional as F
from torch import nn

from tests.softipu.poptorch.operations.example import IMAGE, SEQUENCE, VOLUME, Table, ex, layer, x

RESAMPLING: Table = {
    "nn.Upsample": layer(lambda: nn.Upsample(scale_factor=2), IMAGE),
    "nn.Upsample bicubic": layer(lambda: nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
    "nn.functional.interpolate": ex(lambda a: F.interpolate(a, size=(4, 4)), IMAGE),
}

RESAMPLING_VARIANTS: Table = {
    "nn.Upsample, of signals": layer(lambda: nn.Upsample(scale_factor=3.5), SEQUENCE),
    "nn.Upsample, of volumes": layer(lambda: nn.Upsample(scale_factor=(2, 1, 1.5)), VOLUME),
    "nn.Upsample, smaller": layer(lambda: nn.Upsample(scale_factor=0.435714), IMAGE),
    "nn.Upsample bilinear": layer(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "nn.Upsample bilinear, aligned": layer(lambda: nn.Upsample(size=(4, 9), mode="bilinear", align_corners=True), IMAGE),
    "nn.Upsample bicubic, smaller": layer(lambda: nn.Upsample(scale_factor=0.4357, mode="bicubic"), IMAGE),
    "nn.UpsamplingBilinear2d": layer(lambda: nn.UpsamplingBilinear2d(scale_factor=2), IMAGE),
    "nn.PixelShuffle": layer(lambda: nn.PixelShuffle(2), x(1, 8, 2, 3)),
    "nn.PixelUnshuffle": layer(lambda: nn.PixelUnshuffle(3), IMAGE),
    "nn.functional.affine_grid": ex(lambda a: F.affine_grid(a, [2, 1, 3, 4], align_corners=False), x(2, 2, 3)),
    "nn.functional.grid_sample": ex(lambda a, g: F.grid_sample(a, g, align_corners=False), IMAGE, x(2, 3, 4, 2, low=-0.9, high=0.9)),
}
