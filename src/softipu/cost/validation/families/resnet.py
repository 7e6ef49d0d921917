"""ResNet (He et al. 2015) from transformers, with the stride in the 3 x 3 convolution (version 1.5).

As in graphcore/examples: images of 8-bit numbers come from the host and are normalised on the device.
"""

from typing import Any, Dict, Tuple

import torch
import torch.nn.functional as F
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification

from softipu.cost.validation.families.family import Model

_DEPTHS: Dict[str, Tuple[str, Tuple[int, ...], Tuple[int, ...]]] = {
    "resnet18": ("basic", (2, 2, 2, 2), (64, 128, 256, 512)),
    "resnet34": ("basic", (3, 4, 6, 3), (64, 128, 256, 512)),
    "resnet50": ("bottleneck", (3, 4, 6, 3), (256, 512, 1024, 2048)),
    "resnet101": ("bottleneck", (3, 4, 23, 3), (256, 512, 1024, 2048)),
    "resnet152": ("bottleneck", (3, 8, 36, 3), (256, 512, 1024, 2048)),
}


class Folded(nn.Module):
    """A convolution that has taken in the normalisation behind it, as a compiler for inference does."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        c = convolution
        self.convolution = nn.Conv2d(c.in_channels, c.out_channels, c.kernel_size, c.stride, c.padding, bias=True)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.convolution(x)


class Classifier(nn.Module):
    """Cross-entropy of the class; in inference the scores."""

    scale_C11: torch.Tensor
    mean_C11: torch.Tensor

    def __init__(self, config: ResNetConfig, *, fold: bool) -> None:
        super().__init__()
        whole = ResNetForImageClassification(config)
        self.resnet, self.head = whole.resnet, whole.classifier
        self.register_buffer("scale_C11", torch.ones(3, 1, 1))
        self.register_buffer("mean_C11", torch.zeros(3, 1, 1))
        if fold:
            for module in list(self.resnet.modules()):
                if hasattr(module, "normalization"):
                    module.convolution, module.normalization = Folded(module.convolution), nn.Identity()

    def forward(self, images_BCHW: torch.Tensor, *labels: torch.Tensor) -> Any:
        pixels_BCHW = images_BCHW.to(self.scale_C11.dtype) * self.scale_C11 - self.mean_C11
        scores = self.head(self.resnet(pixels_BCHW)[1])
        return F.cross_entropy(scores, labels[0]) if labels else scores


def resnet(model: Dict[str, Any], micro_batch: int, training: bool) -> Model:
    """Sizes: image, classes. A layer is a block with a residual connection."""
    kind, depths, widths = _DEPTHS[model["family"]]
    config = ResNetConfig(layer_type=kind, depths=list(depths), hidden_sizes=list(widths), num_labels=model["classes"])
    images = torch.zeros(micro_batch, 3, model["image"], model["image"], dtype=torch.uint8)
    inputs = (images, torch.zeros(micro_batch, dtype=torch.int64)) if training else (images,)
    layers = tuple(f"resnet.encoder.stages.{i}.layers.{j}" for i, depth in enumerate(depths) for j in range(depth))
    return Model(Classifier(config, fold=not training), inputs, layers, head="head", residual_adds=layers)
