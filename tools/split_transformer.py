"""A language model of letters, its layers cut over several IPUs: what docs/planning.md plans and docs/_static/report.png shows."""

import argparse

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from lightning_ipu import poptorch


class LanguageModel(L.LightningModule):
    def __init__(self, width: int, n_layers: int, n_ipus: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.layers = nn.Sequential(
            *(nn.TransformerEncoderLayer(width, width // 64, 4 * width, batch_first=True, norm_first=True) for _ in range(n_layers))
        )
        self.head = nn.Linear(width, 256)
        for ipu in range(1, n_ipus):
            poptorch.BeginBlock(self.layers[ipu * n_layers // n_ipus], f"stage {ipu}", ipu_id=ipu)

    def training_step(self, batch, batch_idx):
        (tokens,) = batch
        scores = self.head(self.layers(self.embedding(tokens[:, :-1])))
        return F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--ipus", type=int, default=4)
    arguments = parser.parse_args()
    letters = TensorDataset(torch.randint(256, (4096, 257)))
    model = LanguageModel(arguments.width, arguments.layers, arguments.ipus)
    trainer = L.Trainer(accelerator="ipu", devices=arguments.ipus, accumulate_grad_batches=16, max_epochs=1)
    trainer.fit(model, DataLoader(letters, batch_size=4))
