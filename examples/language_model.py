"""Trains a small transformer to predict the next letter of Python's own documentation, on IPUs or on the CPU.

    python examples/language_model.py                      # accelerator="ipu", devices=2
    python examples/language_model.py --accelerator cpu    # the same training on the CPU

The recipe is that of large models: AdamW with decay for matrices only, a learning rate that warms up and falls after each update, gradients
clipped by norm and accumulated over two batches. Guessing blindly costs log2(number of letters), 6.6 bits a letter; after 200 updates
the model needs 3.4 to 4, as the version of Python and its text have it. The last line says so. Ten to thirty seconds on two software IPUs.

The text comes with Python (`pydoc_data.topics`, what help() shows about the language): nothing is downloaded.
"""

import argparse
import math
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning as L
except ImportError:
    import pytorch_lightning as L

import lightning_ipu  # noqa: F401  teaches Trainer what accelerator="ipu" means

ROWS_PER_UPDATE = 16
ACCUMULATED = 2
CONTEXT = 64
LETTERS = "\n" + "".join(chr(code) for code in range(32, 127))  # others, such as typographic quotes, are left out


class LanguageModel(L.LightningModule):
    """A transformer that looks back only: letters (B, T) to scores for each one's successor (B, T, letters).

    Args:
        width: of an embedding.
        depth: number of layers.
        learning_rate: its highest value.
        updates: number of weight updates that the schedule is made for.
    """

    def __init__(self, width: int = 64, depth: int = 2, learning_rate: float = 5e-3, updates: int = 200) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.letters = nn.Embedding(len(LETTERS), width)
        self.positions = nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        # No dropout: one pass over the text is not enough to learn it by heart.
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, len(LETTERS), bias=False)
        self.head.weight = self.letters.weight
        nn.init.normal_(self.letters.weight, std=0.02)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), -math.inf).triu(1), persistent=False)

    def forward(self, letters):
        length = letters.shape[1]
        x = self.letters(letters) + self.positions[:length]
        return self.head(self.layers(x, mask=self.mask[:length, :length]))

    def bits_per_letter(self, batch):
        (text,) = batch
        logits = self(text[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()) / math.log(2)

    def training_step(self, batch, batch_idx):
        loss = self.bits_per_letter(batch)
        self.log("train_bits", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_bits", self.bits_per_letter(batch), prog_bar=True)

    def configure_optimizers(self):
        matrices = [p for p in self.parameters() if p.ndim >= 2]
        vectors = [p for p in self.parameters() if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=self.hparams.learning_rate, betas=(0.9, 0.95))
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, self.hparams.learning_rate, total_steps=self.hparams.updates, pct_start=0.1, cycle_momentum=False
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def documentation(n_letters: int) -> torch.Tensor:
    """The first letters of Python's documentation, cut into rows: int64, shape (rows, CONTEXT + 1)."""
    text = "\n".join(topics[name] for name in sorted(topics))
    numbers = {letter: number for number, letter in enumerate(LETTERS)}
    letters = torch.tensor([numbers[letter] for letter in text[:n_letters] if letter in numbers])
    n_rows = len(letters) // (CONTEXT + 1)
    return letters[: n_rows * (CONTEXT + 1)].view(n_rows, CONTEXT + 1)


def main(argv=None) -> L.Trainer:
    """Trains, prints the bits per letter, and returns the trainer."""
    parser = argparse.ArgumentParser(description="Train a small transformer on Python's documentation.")
    parser.add_argument("--accelerator", default="ipu", choices=["ipu", "cpu"])
    parser.add_argument("--devices", type=int, default=None, help="default: 2 IPUs, or 1 CPU process")
    parser.add_argument("--updates", type=int, default=200)
    args = parser.parse_args(argv)
    devices = args.devices or {"ipu": 2, "cpu": 1}[args.accelerator]

    L.seed_everything(0)
    rows = documentation(n_letters=420_000)
    # A DataLoader's batch is what one IPU takes at a time; the devices together take ROWS_PER_UPDATE, in ACCUMULATED turns.
    batch_size = ROWS_PER_UPDATE // ACCUMULATED // devices
    train = DataLoader(TensorDataset(rows[:-64]), batch_size=batch_size, shuffle=True, drop_last=True)
    validation = DataLoader(TensorDataset(rows[-64:]), batch_size=batch_size)
    model = LanguageModel(updates=args.updates)
    trainer = L.Trainer(
        accelerator=args.accelerator,
        devices=devices,
        max_steps=args.updates,
        accumulate_grad_batches=ACCUMULATED,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(model, train)
    bits = trainer.validate(model, validation, verbose=False)[0]["val_bits"]
    print(f"{bits:.2f} bits a letter after {args.updates} updates; blind guesses: {math.log2(len(LETTERS)):.2f}")
    return trainer


if __name__ == "__main__":
    main()
