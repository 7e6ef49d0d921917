"""Trains a small convolutional network on handwritten digits, on two IPUs or on the CPU.

    python examples/digits.py                      # accelerator="ipu", devices=2
    python examples/digits.py --accelerator cpu    # the same training on the CPU

The data are the 1,797 images of 8 x 8 pixels that scikit-learn ships: nothing is downloaded.
Needs scikit-learn (`pip install scikit-learn`) and Lightning under either of its names.
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
VALIDATION_ROWS, TEST_ROWS = 256, 256


class DigitClassifier(L.LightningModule):
    """Two convolutions with batch normalisation, then one linear layer: 8 x 8 grey pixels to ten classes."""

    def __init__(self, learning_rate: float = 4e-3) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 10),
        )

    def forward(self, images):
        return self.net(images)

    def loss_and_accuracy(self, batch):
        images, digits = batch
        logits = self(images)
        return F.cross_entropy(logits, digits), (logits.argmax(dim=1) == digits).float().mean()

    def training_step(self, batch, batch_idx):
        loss, accuracy = self.loss_and_accuracy(batch)
        self.log("train_loss", loss, prog_bar=True)
        self.log("train_accuracy", accuracy, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        loss, accuracy = self.loss_and_accuracy(batch)
        self.log("val_loss", loss, prog_bar=True)
        self.log("val_accuracy", accuracy, prog_bar=True)

    def test_step(self, batch, batch_idx):
        _, accuracy = self.loss_and_accuracy(batch)
        self.log("test_accuracy", accuracy)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.learning_rate, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs)
        return [optimizer], [schedule]


def digit_loaders(micro_batch: int):
    """Loaders for training (1,285 images), validation (256) and test (256); images are float32 in 0 to 1, shape (1, 8, 8)."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    data = TensorDataset(images, torch.tensor(digits.target))
    sizes = [len(data) - VALIDATION_ROWS - TEST_ROWS, VALIDATION_ROWS, TEST_ROWS]
    train, validation, test = random_split(data, sizes, generator=torch.Generator().manual_seed(0))
    # drop_last: each epoch leaves out another 5 of the shuffled images, which do not fill a batch.
    return (
        DataLoader(train, batch_size=micro_batch, shuffle=True, drop_last=True),
        DataLoader(validation, batch_size=micro_batch),
        DataLoader(test, batch_size=micro_batch),
    )


def main(argv=None) -> L.Trainer:
    """Trains, tests, prints the accuracy on the test images, and returns the trainer."""
    parser = argparse.ArgumentParser(description="Train a small convolutional network on handwritten digits.")
    parser.add_argument("--accelerator", default="ipu", choices=["ipu", "cpu"])
    parser.add_argument("--devices", type=int, default=None, help="default: 2 IPUs, or 1 CPU process")
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args(argv)
    devices = args.devices or {"ipu": 2, "cpu": 1}[args.accelerator]

    L.seed_everything(0)
    # A DataLoader's batch is what one IPU takes at a time; the devices together take ROWS_PER_UPDATE.
    train, validation, test = digit_loaders(micro_batch=ROWS_PER_UPDATE // devices)
    model = DigitClassifier()
    trainer = L.Trainer(accelerator=args.accelerator, devices=devices, max_epochs=args.epochs, logger=False, enable_checkpointing=False)
    trainer.fit(model, train, validation)
    accuracy = trainer.test(model, test, verbose=False)[0]["test_accuracy"]
    print(f"Test accuracy after {args.epochs} epochs: {accuracy:.1%}")
    return trainer


if __name__ == "__main__":
    main()
