"""One contender in a process of its own: it trains when told to, and stands still in between.

    parent -> child   a number of weight updates
    child  -> parent  {"updates": done, "seconds": they took, "cpu_seconds": of all threads, "peak_rss_bytes": of the process so far}

The first line of a child, before any number, has the seconds from its first own call to the end of its first updates.
A process for each keeps thread pools, compiler state and memory apart.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, TextIO

FOLDER = Path(__file__).parent


class Baton:
    """The child's side: says what was done and waits for the next number. Whatever else a contender prints goes to stderr."""

    def __init__(self) -> None:
        self._answers: TextIO = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        self._start, self._cpu_start = time.perf_counter(), time.process_time()
        self._done = 0
        self._wanted = 1  # the first updates compile and warm up

    def passed(self, n_updates: int) -> bool:
        """Called after every ``n_updates``; returns False when the parent has no more turns."""
        self._done += n_updates
        if self._done < self._wanted:
            return True
        seconds, cpu_seconds = time.perf_counter() - self._start, time.process_time() - self._cpu_start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self._answers.write(
            json.dumps({"updates": self._done, "seconds": seconds, "cpu_seconds": cpu_seconds, "peak_rss_bytes": peak}) + "\n"
        )
        line = sys.stdin.readline()
        if not line.strip():
            return False
        self._done, self._wanted = 0, int(line)
        self._start, self._cpu_start = time.perf_counter(), time.process_time()
        return True


class Contender:
    """The parent's side of one child; ``clock`` is ``wall`` or ``cpu``."""

    def __init__(self, name: str, workload: str, arguments: List[str], threads: Optional[int], clock: str, log: Optional[TextIO]) -> None:
        self.name = name
        self._clock = "cpu_seconds" if clock == "cpu" else "seconds"
        environment = dict(os.environ, PYTHONWARNINGS="ignore")
        if threads:
            environment["OMP_NUM_THREADS"] = str(threads)
        command = [sys.executable, str(FOLDER / "contenders.py"), name, workload, *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log or subprocess.DEVNULL, text=True, env=environment
        )
        self.seconds_to_first_update = self._answer()["seconds"]

    def run(self, n_updates: int) -> float:
        """Weight updates per second over at least ``n_updates``."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{n_updates}\n")
        self._process.stdin.flush()
        answer = self._answer()
        self.peak_rss_bytes = int(answer["peak_rss_bytes"])
        return answer["updates"] / answer[self._clock]

    def stop(self) -> None:
        """Ends the child."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self) -> Dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"The contender {self.name!r} ended by itself with status {self._process.wait()}. "
                "Run it again with --log FILE to see its output."
            )
        return json.loads(line)
