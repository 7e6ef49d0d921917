"""Fine-tunes BERT to tell prose from code in Python's own documentation, on IPUs or on the CPU.

    python examples/bert.py                      # accelerator="ipu", devices=2
    python examples/bert.py --accelerator cpu    # the same training on the CPU

The model is Hugging Face's BertForSequenceClassification in a tiny configuration with random weights, so that nothing is downloaded. For
the real one, put ``BertForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)`` and its tokenizer in the two
places that say so. More than half of the paragraphs are prose; after four epochs nearly nine in ten are told right, as the last line says.
The accelerators draw different numbers for dropout, so their results are close; with ``--dropout 0`` they are equal up to rounding.
Ten to twenty seconds on two software IPUs. Needs transformers.

The text comes with Python (`pydoc_data.topics`, what help() shows about the language).
"""

import argparse
import collections
import re
import textwrap
from pydoc_data.topics import topics

import torch
from torch.utils.data import DataLoader, Dataset, random_split
from torchmetrics.classification import MulticlassAccuracy
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

try:
    import lightning as L
except ImportError:
    import pytorch_lightning as L

import lightning_ipu  # noqa: F401  teaches Trainer what accelerator="ipu" means

ROWS_PER_UPDATE = 32
VALIDATION_ROWS = 200
LENGTH = 32
VOCABULARY = 500


class WordTokenizer:
    """The commonest words and signs of some texts, by number. Stands where ``AutoTokenizer.from_pretrained(...)`` would."""

    def __init__(self, texts) -> None:
        counts = collections.Counter(word for text in texts for word in self.words(text))
        known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(word for word, _ in counts.most_common(VOCABULARY - 4))]
        self.number = {word: number for number, word in enumerate(known)}

    @staticmethod
    def words(text):
        return re.findall(r"\w+|[^\w\s]", text.lower())

    def __call__(self, text):
        """``input_ids`` and ``attention_mask``, int64, shape (LENGTH,)."""
        words = ["[CLS]", *self.words(text)[: LENGTH - 2], "[SEP]"]
        ids = torch.zeros(LENGTH, dtype=torch.int64)
        ids[: len(words)] = torch.tensor([self.number.get(word, self.number["[UNK]"]) for word in words])
        return {"input_ids": ids, "attention_mask": (torch.arange(LENGTH) < len(words)).long()}


class Paragraphs(Dataset):
    """Paragraphs of the documentation: ``labels`` is 1 for code, which is printed indented there. The indentation is taken away."""

    def __init__(self) -> None:
        texts = [text for name in sorted(topics) for text in topics[name].split("\n\n") if len(text.split()) >= 4][:2000]
        self.labels = [int(text.lstrip("\n").startswith(" ")) for text in texts]
        texts = [textwrap.dedent(text) for text in texts]
        tokenizer = WordTokenizer(texts)
        self.rows = [tokenizer(text) for text in texts]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {**self.rows[index], "labels": self.labels[index]}


class TextClassifier(L.LightningModule):
    """BERT with a classification head.

    Args:
        model: of transformers; called with a batch, gives ``loss`` and ``logits``.
        learning_rate: after the warm-up; falls to zero from there.
    """

    def __init__(self, model, learning_rate: float = 2e-3) -> None:
        super().__init__()
        self.model, self.learning_rate = model, learning_rate
        self.accuracy = MulticlassAccuracy(num_classes=2, average="micro")

    def training_step(self, batch, batch_idx):
        loss = self.model(**batch).loss
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        outputs = self.model(**batch)
        self.accuracy(outputs.logits, batch["labels"])
        self.log("val_loss", outputs.loss, prog_bar=True)
        self.log("val_accuracy", self.accuracy, prog_bar=True)

    def configure_optimizers(self):
        undecayed = [p for name, p in self.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
        decayed = [p for name, p in self.named_parameters() if not (name.endswith("bias") or "LayerNorm" in name)]
        groups = [{"params": decayed, "weight_decay": 0.01}, {"params": undecayed, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=self.learning_rate)
        updates = int(self.trainer.estimated_stepping_batches)
        schedule = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=updates // 10, num_training_steps=updates)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main(argv=None) -> L.Trainer:
    """Fine-tunes, prints the accuracy on paragraphs held back, and returns the trainer."""
    parser = argparse.ArgumentParser(description="Fine-tune a tiny BERT on Python's documentation.")
    parser.add_argument("--accelerator", default="ipu", choices=["ipu", "cpu"])
    parser.add_argument("--devices", type=int, default=None, help="default: 2 IPUs, or 1 CPU process")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.1)
    args = parser.parse_args(argv)
    devices = args.devices or {"ipu": 2, "cpu": 1}[args.accelerator]

    L.seed_everything(0)
    data = Paragraphs()
    split = [len(data) - VALIDATION_ROWS, VALIDATION_ROWS]
    train, validation = random_split(data, split, generator=torch.Generator().manual_seed(0))
    # Here BertForSequenceClassification.from_pretrained(...) gives the real one.
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=args.dropout,
        attention_probs_dropout_prob=args.dropout,
    )
    model = TextClassifier(BertForSequenceClassification(config))
    trainer = L.Trainer(accelerator=args.accelerator, devices=devices, max_epochs=args.epochs, logger=False, enable_checkpointing=False)
    # A DataLoader's batch is what one IPU takes at a time; the devices together take ROWS_PER_UPDATE.
    batch_size = ROWS_PER_UPDATE // devices
    trainer.fit(model, DataLoader(train, batch_size=batch_size, shuffle=True), DataLoader(validation, batch_size=batch_size))
    share = sum(data.labels) / len(data)
    print(f"Prose or code: {trainer.callback_metrics['val_accuracy']:.1%} right; always the commoner one: {max(share, 1 - share):.1%}")
    return trainer


if __name__ == "__main__":
    main()
