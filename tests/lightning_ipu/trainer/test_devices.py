"""How many IPUs, which accelerator, and what is known of them while they run."""

import pytest
import torch

import lightning_ipu
from tests.lightning_ipu.trainer.oracle import Memory, Net, Side, Way, data, pl


@pytest.mark.parametrize("given, n", [(1, 1), (4, 4), ("2", 2), ("auto", 1), (64, 64)])
def test_devices_is_the_number_of_ipus(given, n):
    trainer = pl.Trainer(accelerator="ipu", devices=given, logger=False, enable_checkpointing=False)
    assert trainer.num_devices == n
    assert all(isinstance(device, torch.device) for device in trainer.strategy.parallel_devices)


@pytest.mark.parametrize("given", [3, 0, -1, 128, "3", [0, 1, 2], 1.5])
def test_other_numbers_are_refused_with_those_that_there_are(given):
    with pytest.raises(Exception, match=r"devices=.*IPUs come in powers of two\. Allowed: 1, 2, 4, 8, 16, 32, 64, or 'auto'"):
        pl.Trainer(accelerator="ipu", devices=given, logger=False, enable_checkpointing=False)


def test_the_accelerator_can_be_named_given_or_come_with_the_strategy():
    for flags in (
        {"accelerator": "ipu"},
        {"accelerator": lightning_ipu.IPUAccelerator()},
        {"strategy": "ipu"},
        {"strategy": lightning_ipu.IPUStrategy(device_iterations=3)},
    ):
        trainer = pl.Trainer(devices=2, logger=False, enable_checkpointing=False, **flags)
        assert type(trainer.accelerator).__name__ == "IPUAccelerator"
        assert type(trainer.strategy).__name__ == "IPUStrategy"


def test_auto_never_chooses_ipus_and_other_accelerators_are_left_alone():
    for accelerator in ("auto", "cpu"):
        trainer = pl.Trainer(accelerator=accelerator, devices=1, logger=False, enable_checkpointing=False)
        assert "IPU" not in type(trainer.accelerator).__name__ + type(trainer.strategy).__name__


def test_other_strategies_and_several_hosts_are_refused():
    for flags, message in (({"strategy": "ddp"}, "IPUs are driven by IPUStrategy alone"), ({"num_nodes": 2}, "IPUs of one host process")):
        with pytest.raises(Exception, match=message):
            pl.Trainer(accelerator="ipu", logger=False, enable_checkpointing=False, **flags)


@pytest.mark.parametrize("cpu_stats", [None, False])
def test_device_stats_monitor_shows_host_time_and_what_a_replica_holds(cpu_stats):
    memory, side = Memory(), Side("ipu", Way(replicas=2))
    monitor = pl.callbacks.DeviceStatsMonitor(cpu_stats=cpu_stats)
    for _ in range(2):
        side.trainer(logger=memory, log_every_n_steps=1, callbacks=monitor).fit(Net(), side.loader(), side.loader(data(8)))
    ends = [line for _, line in memory.lines if any("on_train_batch_end" in name for name in line)]
    shown = {name.rsplit("ipu.", 1)[1]: value for name, value in ends[-1].items() if "ipu." in name}
    n_weights = sum(parameter.numel() for parameter in Net().parameters())
    assert shown["devices"] == 2
    assert shown["weights_bytes"] == 4 * n_weights
    assert shown["optimizer_state_bytes"] == 4 * n_weights  # one momentum for each
    assert 0 < shown["call_seconds"] < 10
    assert shown["compiled_steps"] >= 1
    # Of the machine model, which prices every training step that the software IPU runs.
    assert shown["estimated_memory_bytes.ipu0"] > shown["weights_bytes"] + shown["optimizer_state_bytes"]
    assert shown["estimated_update_cycles"] > 0


def test_device_stats_monitor_shows_memory_of_each_ipu_and_cycles_where_the_step_is_priced():
    from lightning_ipu import figures
    from lightning_ipu.planning.plan import plan

    report = plan(Net(), (torch.randn(4, 6), torch.tensor([0, 1, 2, 0])))
    found = figures.of_report(report)
    assert found["ipu.estimated_memory_bytes.ipu0"] > 4 * sum(parameter.numel() for parameter in Net().parameters())
    assert found["ipu.estimated_update_cycles"] > 0


def test_the_hint_about_unused_ipus_is_not_for_the_software_ipu(caplog, capsys):
    pl.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
    said = caplog.text + capsys.readouterr().err
    assert "IPU available but not used" not in said.replace("GPU", "")
