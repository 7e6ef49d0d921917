"""Training keeps the memory that a step frees: the next step does not fault it in again."""

import platform
import subprocess
import sys

import pytest
import torch

from softipu import poptorch
from softipu.runtime import host_allocator, program

# Blocks of a step's size, freed and asked for again, in a process of its own: the setting holds for a whole process.
FAULTS = """
import resource, runpy, sys
scope = runpy.run_path(sys.argv[1])
print(scope["keep_freed_memory"]())
for _ in range(2):
    bytearray(b"x") * (64 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    bytearray(b"x") * (64 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(variable):
    command = [sys.executable, "-c", FAULTS, host_allocator.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={host_allocator.VARIABLE: variable})
    kept, n = done.stdout.split()
    return kept == "True", int(n)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_freed_memory_is_not_faulted_in_again():
    pages = 10 * (64 << 20) // 4096
    kept, n_without = faults("0")
    assert not kept
    kept, n_with = faults("1")
    assert kept
    assert n_with < pages / 100
    assert n_without > n_with


def test_another_c_library_is_left_alone(monkeypatch):
    host_allocator.keep_freed_memory.cache_clear()
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not host_allocator.keep_freed_memory()
    host_allocator.keep_freed_memory.cache_clear()


@pytest.mark.parametrize("trains", [True, False])
def test_training_asks_for_it_and_inference_does_not(monkeypatch, trains):
    asked = []
    monkeypatch.setattr(program, "keep_freed_memory", lambda: asked.append(True))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            return poptorch.identity_loss(self.layer(x), "mean")

    model = Model()
    executor = (
        poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)) if trains else poptorch.inferenceModel(model)
    )
    executor(torch.ones(3, 2))
    assert bool(asked) == trains
