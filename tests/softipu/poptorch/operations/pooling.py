"""Pooling."""

from torch import nn

from tests.softipu.poptorch.operations.example import IMAGE, SEQUENCE, VOLUME, Table, layer

POOLING: Table = {
    "nn.MaxPool1d": layer(lambda: nn.MaxPool1d(2), SEQUENCE),
    "nn.MaxPool2d": layer(lambda: nn.MaxPool2d(3, 2, padding=1), IMAGE),
    "nn.MaxPool3d": layer(lambda: nn.MaxPool3d(2), VOLUME),
    "nn.AvgPool1d": layer(lambda: nn.AvgPool1d(2), SEQUENCE),
    "nn.AvgPool2d": layer(lambda: nn.AvgPool2d(3, 2, padding=1), IMAGE),
    "nn.AvgPool3d": layer(lambda: nn.AvgPool3d(2), VOLUME),
    "nn.AdaptiveAvgPool1d": layer(lambda: nn.AdaptiveAvgPool1d(4), SEQUENCE),
    "nn.AdaptiveAvgPool2d": layer(lambda: nn.AdaptiveAvgPool2d(2), IMAGE),
    "nn.AdaptiveAvgPool3d": layer(lambda: nn.AdaptiveAvgPool3d(2), VOLUME),
}

POOLING_VARIANTS: Table = {
    "nn.MaxPool1d, rounded up": layer(lambda: nn.MaxPool1d(3, 2, padding=1, ceil_mode=True), SEQUENCE),
    "nn.MaxPool2d, rounded up": layer(lambda: nn.MaxPool2d((3, 2), (2, 1), ceil_mode=True), IMAGE),
    "nn.MaxPool2d, dilated": layer(lambda: nn.MaxPool2d(2, 1, dilation=2), IMAGE),
    "nn.MaxPool2d, with places": layer(lambda: nn.MaxPool2d(2, return_indices=True), IMAGE),
    "nn.MaxPool3d, padded": layer(lambda: nn.MaxPool3d(3, 2, padding=1), VOLUME),
    "nn.AvgPool1d, without padding": layer(lambda: nn.AvgPool1d(3, 2, padding=1, count_include_pad=False), SEQUENCE),
    "nn.AvgPool2d, rounded up": layer(lambda: nn.AvgPool2d(3, 2, padding=1, ceil_mode=True), IMAGE),
    "nn.AvgPool2d, without padding": layer(lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), IMAGE),
    "nn.AvgPool2d, divided otherwise": layer(lambda: nn.AvgPool2d((3, 2), divisor_override=5), IMAGE),
    "nn.AvgPool3d, divided otherwise": layer(lambda: nn.AvgPool3d(2, divisor_override=3), VOLUME),
    "nn.AdaptiveAvgPool1d, unevenly": layer(lambda: nn.AdaptiveAvgPool1d(3), SEQUENCE),
    "nn.AdaptiveAvgPool2d, unevenly": layer(lambda: nn.AdaptiveAvgPool2d((4, None)), IMAGE),
    "nn.AdaptiveAvgPool3d, unevenly": layer(lambda: nn.AdaptiveAvgPool3d((3, 2, 1)), VOLUME),
    "nn.AdaptiveMaxPool1d": layer(lambda: nn.AdaptiveMaxPool1d(3), SEQUENCE),
    "nn.AdaptiveMaxPool2d": layer(lambda: nn.AdaptiveMaxPool2d((2, 4)), IMAGE),
    "nn.AdaptiveMaxPool3d": layer(lambda: nn.AdaptiveMaxPool3d(2), VOLUME),
    "nn.LPPool1d": layer(lambda: nn.LPPool1d(2, 2), SEQUENCE),
    "nn.LPPool2d": layer(lambda: nn.LPPool2d(2, 3), IMAGE),
}
