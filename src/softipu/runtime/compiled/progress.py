"""A line that says what is being compiled, and for how long."""

import sys
import threading
import time
from contextlib import contextmanager
from typing import Iterator

_SECONDS = 0.5  # between two updates of the line


@contextmanager
def progress_line(title: str, *, shown: bool) -> Iterator[None]:
    """Shows ``title`` with the seconds that have passed; on a terminal the line moves, elsewhere there is one when it is done."""
    if not shown:
        yield
        return
    start = time.perf_counter()
    stream = sys.stderr
    moving = stream.isatty()
    done = threading.Event()

    def tick() -> None:
        while not done.wait(_SECONDS):
            stream.write(f"\rsoftipu: compiling {title} ... {time.perf_counter() - start:.0f} s")
            stream.flush()

    thread = threading.Thread(target=tick, daemon=True)
    if moving:
        thread.start()
    try:
        yield
    finally:
        done.set()
        if moving:
            thread.join()
        stream.write(f"{chr(13) if moving else ''}softipu: compiled {title} in {time.perf_counter() - start:.1f} s\n")
        stream.flush()
