"""GPT-J (Wang and Komatsuzaki 2021) from transformers; its head does not share the embedding's weights."""

from typing import Any, Dict

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GPTJConfig, GPTJForCausalLM

from softipu.cost.validation.families.family import Model


class LanguageModel(nn.Module):
    """Next-token loss; in inference the scores of the last token."""

    def __init__(self, config: GPTJConfig) -> None:
        super().__init__()
        whole = GPTJForCausalLM(config)
        self.transformer, self.head = whole.transformer, whole.lm_head
        for module in whole.modules():  # older versions keep this table as a plain attribute, which a capture takes for a constant
            table = vars(module).pop("embed_positions", None)
            if table is not None:
                module.register_buffer("embed_positions", table, persistent=False)

    def forward(self, tokens_BS: torch.Tensor, *labels: torch.Tensor) -> Any:
        mask_BS = torch.ones_like(tokens_BS)
        hidden_BSH = self.transformer(input_ids=tokens_BS, attention_mask=mask_BS, use_cache=False)[0]
        scores_BSV = self.head(hidden_BSH if labels else hidden_BSH[:, -1:])
        return F.cross_entropy(scores_BSV.flatten(0, 1), labels[0].flatten()) if labels else scores_BSV


def gptj(model: Dict[str, Any], micro_batch: int, training: bool) -> Model:
    """Sizes: layers, hidden, heads, feed_forward, vocabulary, sequence_length, and rotary (64)."""
    length = model["sequence_length"]
    config = GPTJConfig(
        vocab_size=model["vocabulary"],
        n_positions=max(2048, length),
        n_embd=model["hidden"],
        n_layer=model["layers"],
        n_head=model["heads"],
        n_inner=model["feed_forward"],
        rotary_dim=model.get("rotary", min(64, model["hidden"] // model["heads"])),
        attn_implementation="eager",
    )
    tokens = torch.zeros(micro_batch, length, dtype=torch.int64)
    layers = tuple(f"transformer.h.{i}" for i in range(model["layers"]))
    inputs = (tokens, tokens) if training else (tokens,)
    halves = tuple(f"{path}.mlp" for path in layers)
    return Model(LanguageModel(config), inputs, layers, halves, head="head", serialized=("head", "transformer.wte"))
