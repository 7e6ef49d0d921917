"""Swin Transformer (Liu et al. 2021) from transformers, classifying images."""

from typing import Any, Dict

import torch
import torch.nn.functional as F
from torch import nn
from transformers import SwinConfig, SwinForImageClassification

from softipu.cost.validation.families.family import Model


class Classifier(nn.Module):
    """Cross-entropy of the class; in inference the scores."""

    def __init__(self, config: SwinConfig) -> None:
        super().__init__()
        whole = SwinForImageClassification(config)
        self.swin, self.head = whole.swin, whole.classifier

    def forward(self, images_BCHW: torch.Tensor, *labels: torch.Tensor) -> Any:
        scores = self.head(self.swin(images_BCHW)[1])
        return F.cross_entropy(scores, labels[0]) if labels else scores


def swin(model: Dict[str, Any], micro_batch: int, training: bool) -> Model:
    """Sizes: depths, embed_dim, heads, image, patch, window, classes. A layer is one block of windows."""
    config = SwinConfig(
        image_size=model["image"],
        patch_size=model["patch"],
        embed_dim=model["embed_dim"],
        depths=list(model["depths"]),
        num_heads=list(model["heads"]),
        window_size=model["window"],
        num_labels=model["classes"],
        drop_path_rate=0.0,
    )
    images = torch.zeros(micro_batch, 3, model["image"], model["image"])
    inputs = (images, torch.zeros(micro_batch, dtype=torch.int64)) if training else (images,)
    layers = tuple(f"swin.encoder.layers.{i}.blocks.{j}" for i, depth in enumerate(model["depths"]) for j in range(depth))
    return Model(Classifier(config), inputs, layers, tuple(f"{path}.layernorm_after" for path in layers), head="head")
