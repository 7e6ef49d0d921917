"""A dry fit ends before the first training step and leaves everything as it was."""

import copy
import random

import lightning.pytorch as L
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

import lightning_ipu  # noqa: F401
from lightning_ipu.step.dry_run import Stopped, dry_fit
from softipu.graph import Role


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
        self.calls = 0

    def training_step(self, batch, batch_idx):
        return torch.nn.functional.cross_entropy(self.body(batch[0]), batch[1])

    def configure_optimizers(self):
        return self.optimizer


class Counting(Callback):
    def __init__(self):
        self.started = self.ended = 0

    def on_train_batch_start(self, *args):
        self.started += 1

    def on_train_batch_end(self, *args):
        self.ended += 1


def loader(n=32):
    generator = torch.Generator().manual_seed(1)
    rows = TensorDataset(torch.randn(n, 6, generator=generator), torch.randint(0, 3, (n,), generator=generator))
    return DataLoader(rows, batch_size=4)


def trainer(folder, **flags):
    return L.Trainer(accelerator="ipu", devices=1, max_epochs=1, default_root_dir=folder, **flags)


def dry(tmp_path, module, data=None, **flags):
    made = trainer(tmp_path, **flags)
    return dry_fit(type(made).fit, made, module, loader() if data is None else data), made


def test_weights_buffers_and_optimizer_stay_as_they_were(tmp_path):
    module = Net()
    before, optimizer = copy.deepcopy(module.state_dict()), copy.deepcopy(module.optimizer.state_dict())
    parameters = [(id(p), p.data_ptr()) for p in module.parameters()]
    step, _ = dry(tmp_path, module)
    step.layout_at(4)
    step.layout_at(2)
    after = module.state_dict()
    assert list(after) == list(before) and all(torch.equal(after[name], before[name]) for name in before)
    assert [(id(p), p.data_ptr()) for p in module.parameters()] == parameters
    assert module.optimizer.state_dict() == optimizer and not module.optimizer.state
    assert all(p.grad is None for p in module.parameters())


def test_random_numbers_go_on_as_if_nothing_had_been(tmp_path):
    module, data = Net(), loader()
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    iter(data)  # a loader draws its seed, in a dry fit as in a fit
    expected = torch.rand(3), random.random(), np.random.rand()
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    step, _ = dry(tmp_path, module, data)
    step.layout_at(4)
    assert torch.equal(torch.rand(3), expected[0]) and (random.random(), np.random.rand()) == expected[1:]


def test_no_file_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    step, _ = dry(tmp_path, Net(), callbacks=[ModelCheckpoint(dirpath=tmp_path / "kept")])
    step.layout_at(4)
    assert list(tmp_path.iterdir()) == []


def test_the_fit_stops_where_the_first_step_would_run(tmp_path):
    counting = Counting()
    _, made = dry(tmp_path, Net(), callbacks=[counting])
    assert (counting.started, counting.ended, made.global_step) == (1, 0, 0)


def test_a_script_cannot_take_the_stop_for_an_error_of_its_own():
    assert issubclass(Stopped, BaseException) and not issubclass(Stopped, Exception)


def test_the_strategy_gets_its_own_methods_back(tmp_path):
    _, made = dry(tmp_path, Net())
    assert not {"process_dataloader", "sizes", "model_to_device", "make_capturing"} & set(vars(made.strategy))


def test_the_same_module_trains_afterwards_as_without_a_dry_fit(tmp_path):
    def trained(*, dry_first):
        module = Net()
        module.body[2].p = 0.0
        if dry_first:
            dry(tmp_path, module)[0].layout_at(4)
        trainer(tmp_path, logger=False, enable_checkpointing=False, enable_progress_bar=False).fit(module, loader())
        return module.state_dict()

    plain, after = (trained(dry_first=d) for d in (False, True))
    assert all(torch.equal(plain[name], after[name]) for name in plain)


def test_the_step_is_captured_for_any_micro_batch(tmp_path):
    step, _ = dry(tmp_path, Net(), accumulate_grad_batches=2)
    assert (step.name, step.micro_batch) == ("Net", 4)
    for n in (2, 4, 6):
        layout = step.layout_at(n)
        rows = {v.shape[0] for v in layout.step.inputs if v.role is Role.INPUT and v.shape[1:] == (6,)}
        assert (rows, layout.plan.micro_batch, layout.plan.gradient_accumulation) == ({n}, n, 2)
    assert layout.optimizer.rule == "AdamW"


@pytest.mark.parametrize("flags", [{"max_steps": 0}, {"limit_train_batches": 0}], ids=["no steps", "no batches"])
def test_a_fit_without_a_batch_is_an_error(tmp_path, flags):
    with pytest.raises(Exception, match="ended before a training step: the loader gave no batch.*Planning needs one batch"):
        dry(tmp_path, Net(), **flags)
