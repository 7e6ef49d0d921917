"""Work in a process of its own leaves nothing behind but what it writes, and says what went wrong."""

import os
import threading
import time

import pytest

from softipu.runtime.compiled.child import ChildFailed, ChildHangs, can_fork, in_child

pytestmark = pytest.mark.skipif(not can_fork(), reason="this system has no fork")


def test_only_files_remain(tmp_path):
    seen = []

    def work():
        seen.append(1)
        (tmp_path / "process").write_text(str(os.getpid()))

    in_child(work)
    assert seen == []
    assert int((tmp_path / "process").read_text()) != os.getpid()


def test_an_error_is_told():
    def work():
        raise ValueError("no such kernel\nand more")

    with pytest.raises(ChildFailed, match="^ValueError: no such kernel$"):
        in_child(work)


def test_a_process_that_ends_before_it_is_done_is_told():
    with pytest.raises(ChildFailed, match=r"^the process that compiles ended with status \d+$"):
        in_child(lambda: os._exit(0))


def test_a_very_long_error_does_not_block():
    def work():
        raise ValueError("x" * 1000000)

    with pytest.raises(ChildFailed, match="^ValueError: x+$"):
        in_child(work)


def test_a_process_that_hangs_is_ended(tmp_path):
    def work():
        (tmp_path / "process").write_text(str(os.getpid()))
        time.sleep(600)

    with pytest.raises(ChildHangs, match="^the process that compiles said nothing for 0.5 s$"):
        in_child(work, most_seconds=0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "process").read_text()), 0)


def test_a_thread_that_is_not_the_main_one_does_not_fork():
    found = []
    thread = threading.Thread(target=lambda: found.append(can_fork()))
    thread.start()
    thread.join()
    assert found == [False]
