"""Trains an LSTM to write the Zen of Python letter by letter, on IPUs or on the CPU.

    python examples/char_lstm.py                      # accelerator="ipu", devices=2
    python examples/char_lstm.py --accelerator cpu    # the same training on the CPU

After every epoch the model writes a line on the host, with the weights that it has by then. The first lines are babble;
the last ones are in the style of the Zen. Both accelerators write the same. Ten to twenty seconds on two software IPUs.

The text is the module ``this`` of Python's standard library: nothing is downloaded.
"""

import argparse
import codecs
import contextlib
import io

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

try:
    import lightning as L
except ImportError:
    import pytorch_lightning as L

import lightning_ipu  # noqa: F401  teaches Trainer what accelerator="ipu" means

ROWS_PER_UPDATE = 16


def zen_of_python() -> str:
    """Python's design principles, 856 characters."""
    with contextlib.redirect_stdout(io.StringIO()):  # the module prints them when it is imported
        import this
    return codecs.decode(this.s, "rot13")


class Windows(Dataset):
    """Every stretch of ``length`` letters of a text, and the letters that follow each of them; two int64 tensors of shape (length,)."""

    def __init__(self, text: str, length: int) -> None:
        self.alphabet = sorted(set(text))
        self.letters = torch.tensor([self.alphabet.index(letter) for letter in text])
        self.length = length

    def __len__(self):
        return len(self.letters) - self.length

    def __getitem__(self, start):
        window = self.letters[start : start + self.length + 1]
        return window[:-1], window[1:]


class CharLSTM(L.LightningModule):
    """Letters in, scores for the letter after each of them out.

    Args:
        alphabet: the letters that there are, as one string.
        hidden: width of the LSTM.
        learning_rate: of Adam.
    """

    def __init__(self, alphabet: str, hidden: int = 128, learning_rate: float = 5e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.embedding = nn.Embedding(len(alphabet), 32)
        self.lstm = nn.LSTM(32, hidden, batch_first=True)
        self.head = nn.Linear(hidden, len(alphabet))
        self.written = []

    def forward(self, letters, state=None):
        out, state = self.lstm(self.embedding(letters), state)
        return self.head(out), state

    def training_step(self, batch, batch_idx):
        letters, following = batch
        logits, _ = self(letters)
        loss = F.cross_entropy(logits.flatten(0, 1), following.flatten())
        self.log("train_loss", loss, on_step=False, on_epoch=True, prog_bar=True)
        return loss

    def on_train_epoch_end(self):
        self.written.append(self.write("Beautiful is", 60))
        self.print(f"epoch {self.current_epoch}: {self.written[-1]!r}")

    @torch.no_grad()
    def write(self, beginning: str, n_letters: int) -> str:
        """``beginning`` and the ``n_letters`` that the model finds likeliest after it."""
        alphabet, text, state = self.hparams.alphabet, beginning, None
        letters = torch.tensor([[alphabet.index(letter) for letter in beginning]], device=self.device)
        for _ in range(n_letters):
            logits, state = self(letters, state)
            letters = logits[:, -1:].argmax(dim=-1)
            text += alphabet[letters.item()]
        return text

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.learning_rate)


def main(argv=None) -> L.Trainer:
    """Trains, prints a line of the model's after each epoch, and returns the trainer."""
    parser = argparse.ArgumentParser(description="Train an LSTM on the Zen of Python.")
    parser.add_argument("--accelerator", default="ipu", choices=["ipu", "cpu"])
    parser.add_argument("--devices", type=int, default=None, help="default: 2 IPUs, or 1 CPU process")
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args(argv)
    devices = args.devices or {"ipu": 2, "cpu": 1}[args.accelerator]

    L.seed_everything(0)
    windows = Windows(zen_of_python(), length=24)
    # A DataLoader's batch is what one IPU takes at a time; the devices together take ROWS_PER_UPDATE.
    loader = DataLoader(windows, batch_size=ROWS_PER_UPDATE // devices, shuffle=True)
    model = CharLSTM("".join(windows.alphabet))
    trainer = L.Trainer(accelerator=args.accelerator, devices=devices, max_epochs=args.epochs, logger=False, enable_checkpointing=False)
    trainer.fit(model, loader)
    print(f"Loss after {args.epochs} epochs: {trainer.callback_metrics['train_loss']:.3f}")
    return trainer


if __name__ == "__main__":
    main()
