"""`lightning-ipu plan` on scripts that nobody wrote for it: the report in place of the training."""

import textwrap

import pytest

from lightning_ipu import backend
from lightning_ipu.cli import main

SCRIPT = """
    import torch
    import lightning_ipu
    import {package} as L
    from torch.utils.data import DataLoader, TensorDataset


    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(6, 3)

        def training_step(self, batch, batch_idx):
            return torch.nn.functional.cross_entropy(self.body(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.{optimizer}(self.parameters(), lr=0.1)


    if __name__ == "__main__":
        loader = DataLoader(TensorDataset(torch.randn(32, 6), torch.randint(0, 3, (32,))), batch_size=4)
        trainer = L.Trainer(accelerator="ipu", devices=2, logger=False, max_epochs=1, enable_checkpointing=False, {flags})
        trainer.fit(Net(), loader)
        raise SystemExit("it trained")
"""


@pytest.mark.parametrize(
    "optimizer, flags",
    [
        ("SGD", ""),
        ("AdamW", "accumulate_grad_batches=2, gradient_clip_val=0.5"),
        ("SGD", 'gradient_clip_val=0.5, gradient_clip_algorithm="value"'),
        ("Adam", 'precision="16-mixed"'),
    ],
)
def test_the_step_of_a_script_is_priced_and_not_trained(tmp_path, capsys, monkeypatch, optimizer, flags):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT.format(package="lightning.pytorch", optimizer=optimizer, flags=flags)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(backend.VARIABLE, "software")  # the command sets it for the script, and for what comes after
    assert main(["plan", str(script)]) == 0
    out = capsys.readouterr().out
    assert "Net, training on bow-pod16 (2 x Bow): fits" in out
    assert "2 replicas x 1 IPU, micro-batch 4" in out
    assert "samples/s" in out and "it trained" not in out
