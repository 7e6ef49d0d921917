"""What every test gets: one thread, and a hypothesis profile for CI that always tries the same examples."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

# Tests run in two processes on two cores.
torch.set_num_threads(1)

# The first example of a property that captures a graph takes seconds, so no deadline; derandomized: CI fails for what changed, not by luck.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the expected texts anew instead of comparing with them")


@pytest.fixture
def golden(request):
    """``golden(text, name)``: the text equals the file ``golden/<name>`` beside the test; --update-golden writes that file."""

    def compare(text, name):
        path = request.path.parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: run pytest --update-golden and read what it writes"
        assert text == path.read_text(encoding="utf-8")

    return compare
