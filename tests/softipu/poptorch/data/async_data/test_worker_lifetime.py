"""No worker outlives its accessor or its program, whatever ends them, and none leaves anything behind."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from softipu.errors import Error
from softipu.poptorch.data.async_data import AsynchronousDataAccessor
from softipu.poptorch.enums import SharingStrategy

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="processes are looked at through /proc")


def _accessor(dataset, **options):
    return AsynchronousDataAccessor(dataset, sharing_strategy=SharingStrategy.Fork, **options)


def _is_running(process_id):
    try:
        with open(f"/proc/{process_id}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _children_of(process_id):
    with open(f"/proc/{process_id}/task/{process_id}/children") as file:
        return [int(child) for child in file.read().split()]


def _all_end_within(process_ids, seconds):
    deadline = time.monotonic() + seconds
    while any(map(_is_running, process_ids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(_is_running, process_ids))


def _n_open_files():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


class Endless:
    def __iter__(self):
        while True:
            yield torch.zeros(4)


class Stuck:
    """Gives one item and then never returns."""

    def __iter__(self):
        yield torch.zeros(4)
        time.sleep(600)


@pytest.fixture
def shared_memory_unchanged():
    before = set(os.listdir("/dev/shm"))
    yield
    # Others on the machine may remove theirs in the meantime, and add some: ours would carry torch's name and this process.
    assert not [name for name in set(os.listdir("/dev/shm")) - before if str(os.getpid()) in name]


def test_terminate_ends_the_worker(shared_memory_unchanged):
    accessor = _accessor(Endless())
    process_id = accessor._worker.process_id
    next(accessor)
    assert _is_running(process_id)
    accessor.terminate()
    assert not _is_running(process_id)
    assert process_id not in [child.pid for child in multiprocessing.active_children()]


def test_the_worker_ends_with_its_accessor_after_an_early_break():
    accessor = _accessor(Endless())
    process_id = accessor._worker.process_id
    for _ in accessor:
        break
    del accessor
    gc.collect()
    assert not _is_running(process_id)


def test_nothing_stays_open_after_many_accessors(shared_memory_unchanged):
    _accessor(Endless()).terminate()
    before = _n_open_files()
    for _ in range(5):
        accessor = _accessor(Endless())
        next(accessor)
        accessor.terminate()
        del accessor
    assert _n_open_files() <= before


def test_a_worker_inside_the_datasets_code_is_ended():
    accessor = _accessor(Stuck())
    process_id = accessor._worker.process_id
    next(accessor)
    start = time.monotonic()
    accessor.terminate()
    assert not _is_running(process_id)
    assert time.monotonic() - start < 5


def test_a_worker_that_refuses_to_go_is_killed(monkeypatch):
    monkeypatch.setattr("softipu.poptorch.data.async_data.worker_process.TERMINATION_SECONDS", 0.2)
    accessor = _accessor(Deaf())
    process_id = accessor._worker.process_id
    next(accessor)
    accessor.terminate()
    assert not _is_running(process_id)


class Deaf:
    def __iter__(self):
        yield torch.zeros(4)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)


def test_a_killed_worker_is_an_error_within_seconds(shared_memory_unchanged):
    accessor = _accessor(Stuck())
    next(accessor)
    os.kill(accessor._worker.process_id, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(Error, match=r"worker of the AsynchronousDataAccessor is gone: process \d+ was ended by SIGKILL, often .* memory"):
        next(accessor)
    assert time.monotonic() - start < 5


class EndsItsProcess:
    def __init__(self, n_good):
        self.n_good = n_good

    def __iter__(self):
        for _ in range(self.n_good):
            yield torch.zeros(1)
        os._exit(3)


def test_items_of_a_worker_that_ended_are_still_given():
    items = []
    with pytest.raises(Error, match=r"process \d+ ended with exit code 3"):
        for item in _accessor(EndsItsProcess(2)):
            items.append(item)
    assert len(items) == 2


def test_a_worker_that_ends_before_the_first_item_is_an_error():
    with pytest.raises(Error, match=r"worker thread failed to start .*: process \d+ ended with exit code 3 before the first item"):
        _accessor(EndsItsProcess(0))


class SlowNumbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.tensor(index)


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_workers_of_the_worker_end_too(how):
    accessor = _accessor(torch.utils.data.DataLoader(SlowNumbers(), num_workers=2))
    process_id = accessor._worker.process_id
    next(accessor)
    children = _children_of(process_id)
    assert len(children) == 2
    if how == "terminate":
        accessor.terminate()
    else:
        os.kill(process_id, signal.SIGKILL)
        with pytest.raises(Error, match="ended by SIGKILL"):
            list(accessor)
    # torch's workers look for their parent every five seconds.
    assert _all_end_within(children + [process_id], 12)


def test_a_forked_copy_of_the_program_leaves_the_worker_alone():
    accessor = _accessor(Endless())
    copy = os.fork()
    if copy == 0:
        accessor.terminate()
        del accessor
        os._exit(0)
    os.waitpid(copy, 0)
    assert len(next(accessor)) == 4
    accessor.terminate()


def test_interrupts_do_not_reach_the_worker(capfd):
    accessor = _accessor(Endless())
    os.kill(accessor._worker.process_id, signal.SIGINT)
    assert all(len(next(accessor)) == 4 for _ in range(10))
    accessor.terminate()
    assert capfd.readouterr() == ("", "")


PROGRAM = """
    import os, signal, sys, time
    import torch
    from softipu.poptorch.data.async_data import AsynchronousDataAccessor
    from softipu.poptorch.enums import SharingStrategy

    class Numbers:
        def __init__(self, n_good):
            self.n_good = n_good

        def __iter__(self):
            for index in range(self.n_good):
                yield torch.full((3,), index)
            raise LookupError("no such file: cat.png")

    def main():
        accessor = AsynchronousDataAccessor(Numbers({n_good}), sharing_strategy=SharingStrategy.{strategy})
        print(accessor._worker.process_id, flush=True)
        for item in accessor:
            break
        {then}

    if __name__ == "__main__":
        main()
"""


def _hear_interrupts():
    """A job that a shell started in the background ignores SIGINT, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start_program(tmp_path):
    """Runs a program that takes one item and then does something."""
    programs = []

    def start(then, n_good=1000000, strategy="ForkServer"):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(PROGRAM).format(then=then, n_good=n_good, strategy=strategy))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        program = subprocess.Popen([sys.executable, str(path)], text=True, start_new_session=True, preexec_fn=_hear_interrupts, **pipes)
        programs.append(program)
        return program, int(program.stdout.readline())

    yield start
    for program in programs:
        if program.poll() is None:
            program.kill()
        program.communicate()


def test_the_worker_ends_with_a_program_that_just_ends(start_program):
    program, worker_id = start_program("pass", strategy="Fork")
    assert program.communicate(timeout=60) == ("", "")
    assert program.returncode == 0
    assert not _is_running(worker_id)


def test_an_interrupt_ends_program_and_worker_without_a_word_of_the_worker(start_program):
    program, worker_id = start_program("print('waiting', flush=True); time.sleep(600)")
    assert program.stdout.readline() == "waiting\n"
    # As a terminal does: to the whole group.
    os.killpg(program.pid, signal.SIGINT)
    errors = program.communicate(timeout=60)[1]
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")
    assert not _is_running(worker_id)


def test_the_worker_notices_that_its_program_was_killed(start_program):
    program, worker_id = start_program("print('waiting', flush=True); time.sleep(600)")
    assert program.stdout.readline() == "waiting\n"
    assert _is_running(worker_id)
    program.kill()
    assert _all_end_within([worker_id], 10)


def test_an_error_of_the_dataset_ends_the_program_with_both_tracebacks(start_program):
    program, worker_id = start_program("list(accessor)", n_good=2, strategy="Fork")
    errors = program.communicate(timeout=60)[1]
    assert program.returncode == 1
    assert 'raise LookupError("no such file: cat.png")' in errors
    assert "The dataset raised LookupError: no such file: cat.png in the worker" in errors
    assert not _is_running(worker_id)


def test_a_program_without_a_main_guard_is_told_so(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent(PROGRAM).format(then="pass", n_good=9, strategy="SharedMemory").replace('if __name__ == "__main__"', "if True")
    )
    program = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
    assert program.returncode == 1 and program.stdout == ""
    assert "must do its work under `if __name__ == '__main__':`; SharingStrategy.Fork does without." in program.stderr


def test_a_dataset_that_cannot_be_pickled_is_an_error_that_names_the_way_out():
    before = set(multiprocessing.active_children())
    items = [torch.zeros(1)]
    dataset = torch.utils.data.DataLoader(items, collate_fn=lambda batch: batch[0])
    for strategy in (SharingStrategy.ForkServer, SharingStrategy.SharedMemory, SharingStrategy.FileSystem):
        with pytest.raises(Error, match=f"by SharingStrategy.{strategy.name}, because .* cannot be pickled: .*use SharingStrategy.Fork"):
            AsynchronousDataAccessor(dataset, sharing_strategy=strategy)
    assert set(multiprocessing.active_children()) <= before
