"""`lightning-ipu plan` on scripts that nobody wrote for it: the report in place of the training."""

import json
import subprocess
import sys
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


def test_a_script_that_names_poptorch_is_told_nothing_of_what_runs_steps(tmp_path):
    """In a process of its own: the line is said once a process."""
    script = tmp_path / "train.py"
    text = textwrap.dedent(SCRIPT.format(package="lightning.pytorch", optimizer="SGD", flags=""))
    script.write_text("from lightning_ipu import poptorch\npoptorch.Options()\n" + text, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "lightning_ipu.cli", "plan", str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "fits" in done.stdout
    assert "running on" not in done.stderr


COMMAND_LINE = """
    import torch
    import lightning.pytorch as L
    from lightning.pytorch.cli import LightningCLI
    from torch.utils.data import DataLoader, TensorDataset


    class Net(L.LightningModule):
        def __init__(self, width: int = 3):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.Linear(width, 3))

        def training_step(self, batch, batch_idx):
            return torch.nn.functional.cross_entropy(self.body(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)


    class Data(L.LightningDataModule):
        def __init__(self, rows: int = 4):
            super().__init__()
            self.rows = rows

        def train_dataloader(self):
            return DataLoader(TensorDataset(torch.randn(32, 6), torch.randint(0, 3, (32,))), batch_size=self.rows)


    LightningCLI(Net, Data)
    raise SystemExit("it trained")
"""


@pytest.fixture
def planned(tmp_path, capsys, monkeypatch):
    """``planned(script, *arguments)``: exit code, what was printed, and what the script left in its folder."""

    def run(script, *arguments):
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(script), encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        code = main(["plan", str(path), *arguments])
        answer = capsys.readouterr()
        written = sorted(p.name for p in tmp_path.rglob("*") if p != path and "__pycache__" not in p.parts)
        return code, answer.out, answer.err, written

    return run


def test_a_lightning_cli_takes_its_arguments_and_writes_no_configuration(planned):
    flags = (
        "--",
        "fit",
        "--model.width",
        "5",
        "--data.rows",
        "8",
        "--trainer.accelerator",
        "gpu",
        "--trainer.accumulate_grad_batches",
        "2",
    )
    code, out, err, written = planned(COMMAND_LINE, "--format", "json", *flags)
    assert code == 0 and written == []
    cost = json.loads(out)["cost"]
    assert (cost["plan"]["micro_batch"], cost["plan"]["gradient_accumulation"]) == (8, 2)
    weights = 4 * (6 * 5 + 5 + 5 * 3 + 3)  # of width 5, in float
    assert cost["memory"][0]["by_category"]["weights"]["total"] == weights
    assert "Trainer(accelerator='gpu') was taken as 'ipu'." in err


def test_of_several_fits_the_first_is_planned_and_none_trains(planned):
    several = SCRIPT.format(package="lightning.pytorch", optimizer="SGD", flags="").replace("trainer.fit(Net(), loader)", SEVERAL)
    code, out, err, written = planned(several, "--format", "json")
    report = json.loads(out)
    assert (code, report["model"], report["cost"]["plan"]["micro_batch"], written) == (0, "First", 2, [])
    assert err == "before\nTrainer.validate before Trainer.fit was left out.\n"


SEVERAL = """class First(Net):
            pass

        print("before")
        trainer.validate(First(), loader)
        for module, rows in ((First(), 2), (Net(), 4)):
            trainer.fit(module, DataLoader(loader.dataset, batch_size=rows))
            print("after a fit")
"""

UNLISTED = """y = torch.special.i0(self.body(batch[0]))
            y = y + torch.linalg.det(batch[0][:, None] * batch[0][:, :, None])[:, None]
            y = torch.special.i0(y)
            return torch.nn.functional.cross_entropy(y, batch[1])"""


def test_ops_lists_what_poptorch_does_not_with_lines_and_nothing_else(planned):
    script = SCRIPT.format(package="lightning.pytorch", optimizer="SGD", flags="")
    script = script.replace("return torch.nn.functional.cross_entropy(self.body(batch[0]), batch[1])", UNLISTED)
    code, out, err, written = planned(script, "--ops")
    first = 1 + next(i for i, line in enumerate(textwrap.dedent(script).splitlines()) if "special.i0(self" in line)
    listed = [(line.split(" (")[0], int(line.rstrip(")").rpartition(":")[2])) for line in out.splitlines()]
    assert (code, written) == (1, [])
    assert listed == [("i0", first), ("_linalg_det", first + 1), ("i0", first + 2)]
    assert all("train.py:" in line for line in out.splitlines()) and "it trained" not in out + err


def test_ops_of_a_step_that_poptorch_knows_is_one_sentence(planned):
    code, out, _, written = planned(SCRIPT.format(package="lightning.pytorch", optimizer="Adam", flags=""), "--ops")
    assert (code, out, written) == (0, "PopTorch lists every op of the step as supported.\n", [])
