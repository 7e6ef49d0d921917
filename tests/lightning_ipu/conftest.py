"""The plug-in's tests run on a PopTorch that has documented names only."""

import pytest

from tests.lightning_ipu.public_poptorch import public_names_only


@pytest.fixture(autouse=True)
def asked_of_poptorch():
    """The names that the plug-in asked PopTorch's objects for in this test, a set for each class."""
    with public_names_only() as used:
        yield used
