"""ViT (Dosovitskiy et al. 2020) from transformers, classifying images.

Dropout is that of graphcore/examples (vision/vit/pytorch/configs.yml) unless the model says otherwise.
"""

from typing import Any, Dict

import torch
import torch.nn.functional as F
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

from softipu.cost.validation.families.family import Model


class Classifier(nn.Module):
    """Cross-entropy of the class; in inference the scores."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        whole = ViTForImageClassification(config)
        self.vit, self.head = whole.vit, whole.classifier

    def forward(self, images_BCHW: torch.Tensor, *labels: torch.Tensor) -> Any:
        scores = self.head(self.vit(images_BCHW)[0][:, 0])
        return F.cross_entropy(scores, labels[0]) if labels else scores


def vit(model: Dict[str, Any], micro_batch: int, training: bool) -> Model:
    """Sizes: layers, hidden, heads, feed_forward, image, patch, classes, and the fractions dropout (0.1) and attention_dropout (0)."""
    config = ViTConfig(
        hidden_size=model["hidden"],
        num_hidden_layers=model["layers"],
        num_attention_heads=model["heads"],
        intermediate_size=model["feed_forward"],
        image_size=model["image"],
        patch_size=model["patch"],
        num_labels=model["classes"],
        hidden_dropout_prob=model.get("dropout", 0.1),
        attention_probs_dropout_prob=model.get("attention_dropout", 0.0),
        attn_implementation="eager",
    )
    images = torch.zeros(micro_batch, 3, model["image"], model["image"])
    inputs = (images, torch.zeros(micro_batch, dtype=torch.int64)) if training else (images,)
    module = Classifier(config)
    # Where transformers keeps the layers has changed between its versions.
    first = next(path for path, m in module.named_modules() if type(m).__name__ == "ViTLayer")
    stem = first.rsplit(".", 1)[0]
    layers = tuple(f"{stem}.{i}" for i in range(model["layers"]))
    return Model(module, inputs, layers, tuple(f"{path}.layernorm_after" for path in layers), head="head")
