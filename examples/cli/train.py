"""A program with Lightning's command line: what runs, and on what, stands in YAML files.

    python examples/cli/train.py fit --config examples/cli/digits.yaml                                  # on the CPU
    python examples/cli/train.py fit --config examples/cli/digits.yaml --config examples/cli/ipu.yaml   # on two IPUs
    python examples/cli/train.py fit --config examples/cli/digits.yaml --trainer.accelerator ipu        # on one IPU

The second file says what is different on IPUs: the accelerator, the number of devices, the strategy, and what one IPU takes at a time. Any
value can be given on the command line too, the last one wins. Ten epochs take a few seconds and tell about 95 % of the digits right.

Needs scikit-learn and Lightning's command line (`pip install "jsonargparse[signatures]"`).
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

try:
    import lightning as L
    from lightning.pytorch.cli import LightningCLI
except ImportError:
    import pytorch_lightning as L
    from pytorch_lightning.cli import LightningCLI

import lightning_ipu  # noqa: F401  teaches Trainer what accelerator="ipu" means


class Classifier(L.LightningModule):
    """64 grey pixels to ten classes.

    Args:
        hidden: width of the layer between.
        learning_rate: of Adam.
    """

    def __init__(self, hidden: int = 128, learning_rate: float = 3e-3) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.net = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))

    def training_step(self, batch, batch_idx):
        pixels, digits = batch
        loss = F.cross_entropy(self.net(pixels), digits)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        pixels, digits = batch
        accuracy = (self.net(pixels).argmax(dim=1) == digits).float().mean()
        self.log("val_accuracy", accuracy, prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)


class Digits(L.LightningDataModule):
    """The 1,797 handwritten digits that scikit-learn ships.

    Args:
        batch_size: images that one device takes at a time.
    """

    def __init__(self, batch_size: int = 32) -> None:
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage: str) -> None:
        digits = load_digits()
        data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))
        self.train, self.validation = random_split(data, [len(data) - 256, 256], generator=torch.Generator().manual_seed(0))

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.validation, batch_size=self.batch_size)


def main(args=None) -> L.Trainer:
    """Does what the command line says, and returns the trainer."""
    return LightningCLI(Classifier, Digits, seed_everything_default=0, save_config_callback=None, args=args).trainer


if __name__ == "__main__":
    main()
