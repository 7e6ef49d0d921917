"""Trains an autoencoder that describes a handwritten digit with eight numbers, on IPUs or on the CPU.

    python examples/autoencoder.py                      # accelerator="ipu", devices=2
    python examples/autoencoder.py --accelerator cpu    # the same training on the CPU

After fifteen epochs the images that it paints from eight numbers have a fifth of the squared error that the
average image has. The last line says so; it is the same on both accelerators up to rounding. A few seconds.

The data are the 1,797 images of 8 x 8 pixels that scikit-learn ships: nothing is downloaded. Needs scikit-learn.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

try:
    import lightning as L
except ImportError:
    import pytorch_lightning as L

import lightning_ipu  # noqa: F401  teaches Trainer what accelerator="ipu" means

ROWS_PER_UPDATE = 32
TEST_ROWS = 261


class Autoencoder(L.LightningModule):
    """64 grey pixels to ``code`` numbers and back."""

    def __init__(self, code: int = 8, learning_rate: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, code))
        self.decoder = nn.Sequential(nn.Linear(code, 128), nn.GELU(), nn.Linear(128, 64), nn.Sigmoid())

    def forward(self, images):
        return self.encoder(images)

    def training_step(self, batch, batch_idx):
        (images,) = batch
        loss = F.mse_loss(self.decoder(self(images)), images)
        self.log("train_loss", loss, on_step=False, on_epoch=True, prog_bar=True)
        return loss

    def test_step(self, batch, batch_idx):
        (images,) = batch
        self.log("test_error", F.mse_loss(self.decoder(self(images)), images))

    def predict_step(self, batch, batch_idx):
        return self(batch[0])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)


def main(argv=None) -> L.Trainer:
    """Trains, tests, prints how good the pictures are, and returns the trainer."""
    parser = argparse.ArgumentParser(description="Train an autoencoder on handwritten digits.")
    parser.add_argument("--accelerator", default="ipu", choices=["ipu", "cpu"])
    parser.add_argument("--devices", type=int, default=None, help="default: 2 IPUs, or 1 CPU process")
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args(argv)
    devices = args.devices or {"ipu": 2, "cpu": 1}[args.accelerator]

    L.seed_everything(0)
    images = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    train, test = random_split(TensorDataset(images), [len(images) - TEST_ROWS, TEST_ROWS], generator=torch.Generator().manual_seed(0))
    # A DataLoader's batch is what one IPU takes at a time; the devices together take ROWS_PER_UPDATE.
    train_loader = DataLoader(train, batch_size=ROWS_PER_UPDATE // devices, shuffle=True)
    test_loader = DataLoader(test, batch_size=ROWS_PER_UPDATE // devices)
    model = Autoencoder()
    trainer = L.Trainer(accelerator=args.accelerator, devices=devices, max_epochs=args.epochs, logger=False, enable_checkpointing=False)
    trainer.fit(model, train_loader)

    codes = torch.cat(trainer.predict(model, test_loader))
    error = trainer.test(model, test_loader, verbose=False)[0]["test_error"]
    average = F.mse_loss(images[train.indices].mean(dim=0).expand(TEST_ROWS, -1), images[test.indices])
    print(f"{len(codes)} test images as {codes.shape[1]} numbers each: error {error:.4f}; the average image's: {average:.4f}")
    return trainer


if __name__ == "__main__":
    main()
