"""Models that nobody here wrote, in tiny configurations: one epoch through the Trainer equals accelerator="cpu"."""

import copy

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import lightning_ipu  # noqa: F401

transformers = pytest.importorskip("transformers")

N, BATCH = 32, 4
QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


def bert():
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3,
    )  # fmt: skip
    data = {"input_ids": _tokens(50), "attention_mask": torch.ones(N, 12, dtype=torch.long), "labels": torch.randint(0, 3, (N,))}
    return transformers.BertForSequenceClassification(config), data


def bert_without_a_mask():
    model, data = bert()
    return model, {name: value for name, value in data.items() if name != "attention_mask"}


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=50,
        n_positions=16,
        n_embd=16,
        n_layer=2,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    ids = _tokens(50)
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def vit():
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=8, num_labels=3
    )
    return transformers.ViTForImageClassification(config), _images()


def resnet():
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=3)
    return transformers.ResNetForImageClassification(config), _images()


def _tokens(n):
    return torch.randint(0, n, (N, 12))


def _images():
    return {"pixel_values": torch.randn(N, 3, 16, 16), "labels": torch.randint(0, 3, (N,))}


class Wrapped(pl.LightningModule):
    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def training_step(self, batch, batch_idx):
        return self.model(**dict(zip(self.names, batch))).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, eps=1e-4)


def train(accelerator, model, data, **flags):
    module = Wrapped(model, list(data))
    trainer = pl.Trainer(accelerator=accelerator, max_epochs=1, **flags, **QUIET)
    trainer.fit(module, DataLoader(TensorDataset(*data.values()), batch_size=BATCH))
    assert trainer.global_step == N // BATCH // flags.get("accumulate_grad_batches", 1)
    return torch.cat([v.double().flatten() for v in module.state_dict().values()])


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("make", [bert, bert_without_a_mask, gpt2, vit, resnet])
def test_one_epoch_equals_the_cpu(make, accumulate):
    torch.manual_seed(0)
    model, data = make()
    before = torch.cat([v.double().flatten() for v in model.state_dict().values()])
    flags = {"devices": 1, "accumulate_grad_batches": accumulate}
    want = train("cpu", copy.deepcopy(model), data, **flags)
    got = train("ipu", model, data, **flags)
    assert (want - before).norm() / before.norm() > 1e-4
    assert (got - want).norm() / want.norm() < 1e-5
