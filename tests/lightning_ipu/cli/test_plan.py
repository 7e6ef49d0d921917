"""`lightning-ipu plan`: unchanged scripts, run up to their first fit."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import torch
from torch import nn
import lightning.pytorch as pl
from torch.utils.data import DataLoader, TensorDataset

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.body(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

loader = DataLoader(TensorDataset(torch.randn(32, 6), torch.zeros(32, dtype=torch.long)), batch_size=int(sys.argv[1]))
"""
FIT = "pl.Trainer(accelerator={0!r}, devices=1, max_epochs=1).fit(Net(), loader)\nprint('trained')\n"


@pytest.fixture
def plan(tmp_path):
    """``plan(ending, *flags)``: runs the command on a script in a folder of its own."""

    def run(ending, *flags, args=("4",)):
        path = tmp_path / "train.py"
        path.write_text(SCRIPT + ending, encoding="utf-8")
        command = [sys.executable, "-m", "lightning_ipu.cli", "plan", str(path), *flags, "--", *args]
        environment = {name: value for name, value in os.environ.items() if name != "LIGHTNING_IPU_BACKEND"}
        return subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, cwd=tmp_path)

    return run


def test_a_script_for_a_gpu_is_planned_and_not_trained(plan):
    answer = plan(FIT.format("gpu"), "--format", "json")
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert report["model"] == "Net" and report["cost"]["plan"]["micro_batch"] == 4
    assert "trained" not in answer.stderr


def test_a_search_writes_a_plan_that_a_strategy_takes(plan, tmp_path):
    answer = plan(FIT.format("auto"), "--search", "--output", "report.txt")
    assert answer.returncode == 0, answer.stderr
    written = json.loads((tmp_path / "plan.json").read_text())
    assert written["schema"] == 1 and written["predicted"]["model"] == "Net"
    assert "fits" in (tmp_path / "report.txt").read_text().split("\n")[0]


def test_a_script_that_never_fits_is_told(plan):
    answer = plan("print('nothing to train')\n")
    assert answer.returncode == 1
    assert "ended and never called Trainer.fit, so there is nothing to plan" in answer.stderr and not answer.stdout
