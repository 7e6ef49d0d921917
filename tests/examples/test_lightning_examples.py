"""The Lightning examples, short runs: by changing the accelerator alone they learn the same on IPUs as on the CPU.

Adam divides by the size of a gradient: where a gradient is nearly zero, a difference in its last bit is as large as a step. So metrics
are compared closely, and weights by the norm of all of them together.
"""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "examples"
CLI = FOLDER / "cli"

# The flags of a short run, the metric that is compared, and the range that says that it has learnt.
RUNS = {
    "autoencoder": (["--epochs", "2"], "test_error", (0, 0.06)),  # the average image's: 0.074
    "char_lstm": (["--epochs", "2"], "train_loss", (0, 2.4)),  # blind guesses: 3.7
    "language_model": (["--updates", "25"], "val_bits", (0, 5.2)),  # blind guesses: 6.6
    "bert": (["--epochs", "2", "--dropout", "0"], "val_accuracy", (0.7, 1)),  # blind guesses: 0.57
    "digits": (["--epochs", "1"], "test_accuracy", (0.8, 1)),  # blind guesses: 0.1
}


def load(path):
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def weights(trainer):
    return torch.nn.utils.parameters_to_vector(trainer.lightning_module.parameters()).detach()


def test_every_example_has_a_test_and_a_line_in_the_list():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(RUNS)
    assert all(f"`{name}.py`" in page for name in RUNS) and "`cli/train.py`" in page


@pytest.fixture(scope="module")
def on_the_cpu():
    """``on_the_cpu(name)``: the trainer of the run on the CPU, made once, and what it printed."""
    made = {}

    def run(name):
        if name not in made:
            made[name] = load(FOLDER / f"{name}.py").main([*RUNS[name][0], "--accelerator", "cpu"])
        return made[name]

    return run


# BatchNorm's statistics are those of a micro-batch, so the digits are the same on one IPU only.
@pytest.mark.parametrize("name, devices", [(name, n) for name in RUNS for n in (1, 2) if (name, n) != ("digits", 2)])
def test_example_learns_on_ipus_what_it_learns_on_the_cpu(name, devices, on_the_cpu):
    flags, metric, (low, high) = RUNS[name]
    cpu = on_the_cpu(name)
    ipu = load(FOLDER / f"{name}.py").main([*flags, "--accelerator", "ipu", "--devices", str(devices)])
    assert low < float(ipu.callback_metrics[metric]) < high
    assert float(ipu.callback_metrics[metric]) == pytest.approx(float(cpu.callback_metrics[metric]), rel=1e-3)
    assert ipu.global_step == cpu.global_step > 0
    assert (weights(ipu) - weights(cpu)).norm() / weights(cpu).norm() < 1e-3


def test_text_written_between_epochs_is_that_of_the_weights_of_the_moment(monkeypatch, on_the_cpu):
    example = load(FOLDER / "char_lstm.py")
    states = []

    class Kept(example.CharLSTM):
        def on_train_epoch_end(self):
            super().on_train_epoch_end()
            states.append({name: value.clone() for name, value in self.state_dict().items()})

    monkeypatch.setattr(example, "CharLSTM", Kept)
    module = example.main([*RUNS["char_lstm"][0], "--accelerator", "ipu"]).lightning_module
    fresh = Kept(module.hparams.alphabet)
    for text, state in zip(module.written, states):
        fresh.load_state_dict(state)
        assert fresh.write("Beautiful is", 60) == text
    assert len(set(module.written)) == 2, "the weights changed between the epochs, so what they write did"
    assert module.written == on_the_cpu("char_lstm").lightning_module.written


def test_the_command_line_trains_on_what_the_yaml_files_say():
    pytest.importorskip("jsonargparse", reason="LightningCLI needs jsonargparse")
    main = load(CLI / "train.py").main
    short = ["--trainer.max_epochs", "2", "--trainer.enable_model_summary", "false"]
    cpu = main(["fit", "--config", str(CLI / "digits.yaml"), *short])
    both = main(["fit", "--config", str(CLI / "digits.yaml"), "--config", str(CLI / "ipu.yaml"), *short])
    flag = main(["fit", "--config", str(CLI / "digits.yaml"), "--trainer.accelerator", "ipu", *short])
    assert type(both.strategy).__name__ == "IPUStrategy" and both.strategy.device_iterations == 4 and both.num_devices == 2
    assert type(flag.strategy).__name__ == "IPUStrategy" and flag.num_devices == 1
    for ipu in (both, flag):
        assert ipu.global_step == cpu.global_step == 98
        assert float(ipu.callback_metrics["val_accuracy"]) == pytest.approx(float(cpu.callback_metrics["val_accuracy"]), abs=0.005)
        assert (weights(ipu) - weights(cpu)).norm() / weights(cpu).norm() < 1e-3
    assert float(cpu.callback_metrics["val_accuracy"]) > 0.8
