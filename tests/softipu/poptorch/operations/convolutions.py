"""Convolutions, plain and transposed."""

from torch import nn

from tests.softipu.poptorch.operations.example import IMAGE, SEQUENCE, VOLUME, Table, layer, x

CONVOLUTIONS: Table = {
    "nn.Conv1d": layer(lambda: nn.Conv1d(3, 4, 3, padding=1), SEQUENCE),
    "nn.Conv2d": layer(lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), IMAGE),
    "nn.Conv3d": layer(lambda: nn.Conv3d(2, 4, 3, dilation=1), VOLUME),
    "nn.ConvTranspose1d": layer(lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), SEQUENCE),
    "nn.ConvTranspose2d": layer(lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), IMAGE),
    "nn.ConvTranspose3d": layer(lambda: nn.ConvTranspose3d(2, 3, 2), VOLUME),
}

CONVOLUTION_VARIANTS: Table = {
    "nn.Conv1d, around the ring": layer(lambda: nn.Conv1d(3, 4, 3, stride=2, padding=2, padding_mode="circular"), SEQUENCE),
    "nn.Conv1d, mirrored": layer(lambda: nn.Conv1d(3, 4, 3, padding=2, padding_mode="reflect"), SEQUENCE),
    "nn.Conv1d, dilated, without bias": layer(lambda: nn.Conv1d(3, 4, 3, padding=4, dilation=3, bias=False), SEQUENCE),
    "nn.Conv2d, around the ring": layer(lambda: nn.Conv2d(3, 2, 3, padding=1, padding_mode="circular"), IMAGE),
    "nn.Conv2d, mirrored": layer(lambda: nn.Conv2d(3, 2, 3, stride=2, padding=2, padding_mode="reflect"), IMAGE),
    "nn.Conv2d, with the edge": layer(lambda: nn.Conv2d(3, 2, (3, 5), padding=(1, 2), padding_mode="replicate"), IMAGE),
    "nn.Conv2d, of the same size": layer(lambda: nn.Conv2d(3, 2, (2, 3), padding="same"), IMAGE),
    "nn.Conv2d, in groups": layer(lambda: nn.Conv2d(3, 6, (3, 5), stride=(2, 1), padding=(4, 2), groups=3), IMAGE),
    "nn.Conv2d, one image": layer(lambda: nn.Conv2d(3, 2, 3, dilation=2), IMAGE[0]),
    "nn.Conv3d, in groups": layer(lambda: nn.Conv3d(2, 4, (3, 2, 2), stride=(2, 1, 1), padding=(2, 1, 0), groups=2), VOLUME),
    "nn.Conv3d, with the edge": layer(lambda: nn.Conv3d(2, 2, 2, padding=1, padding_mode="replicate"), VOLUME),
    "nn.ConvTranspose1d, dilated": layer(lambda: nn.ConvTranspose1d(3, 4, 3, stride=2, dilation=2, padding=1), SEQUENCE),
    "nn.ConvTranspose2d, in groups": layer(lambda: nn.ConvTranspose2d(3, 6, (3, 5), stride=2, groups=3, bias=False), IMAGE),
    "nn.ConvTranspose2d, dilated": layer(lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1, dilation=2), IMAGE),
    "nn.ConvTranspose3d, in groups": layer(
        lambda: nn.ConvTranspose3d(2, 2, (3, 2, 2), stride=(2, 1, 1), groups=2, output_padding=(1, 0, 0)), VOLUME
    ),
    "nn.Unfold": layer(lambda: nn.Unfold((2, 3), dilation=(1, 2), padding=2, stride=(3, 1)), IMAGE),
    "nn.Fold": layer(lambda: nn.Fold((6, 6), (2, 3), padding=(1, 0), stride=(2, 3)), x(2, 12, 8)),
}
