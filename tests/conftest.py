"""What every test gets: one thread, and a hypothesis profile for CI that always tries the same examples."""

import os

import torch
from hypothesis import HealthCheck, settings

# Tests run in two processes on two cores.
torch.set_num_threads(1)

# The first example of a property that captures a graph takes seconds, so no deadline; derandomized: CI fails for what changed, not by luck.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")
