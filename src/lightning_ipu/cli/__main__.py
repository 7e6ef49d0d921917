"""`python -m lightning_ipu.cli`, for environments whose scripts are not on PATH."""

import sys

from lightning_ipu.cli import main

sys.exit(main())
