"""Fits the calibration of the machine model to published runs, and writes what documentation and tests need of them.

    python tools/calibrate.py            # everything
    python tools/calibrate.py --check    # nothing; fails when what is written is not what would be

Fits to src/softipu/hardware/calibration/published.json and nothing else; runs in tests/softipu/cost/validation/outside.json are only
compared with. Writes

    src/softipu/hardware/calibration/fitted.json                  the factors
    tests/softipu/cost/validation/workloads.json.gz               the captured workloads, so that tests need not capture
    docs/validation.md                                            predicted beside measured, and leave-one-family-out
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Dict

from softipu.cost.validation.document import validation_page
from softipu.cost.validation.fit import cases, fit, leave_one_family_out
from softipu.cost.validation.published import read_published
from softipu.cost.validation.runs import Workloads, validate
from softipu.cost.validation.stored import store, stored
from softipu.hardware.calibration.factors import FILE

ROOT = Path(__file__).parent.parent
PUBLISHED = FILE.with_name("published.json")
OUTSIDE = ROOT / "tests" / "softipu" / "cost" / "validation" / "outside.json"
WORKLOADS = ROOT / "tests" / "softipu" / "cost" / "validation" / "workloads.json.gz"
PAGE = ROOT / "docs" / "validation.md"


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit the machine model to published runs.")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail when the files are out of date")
    parser.add_argument("--stored", action="store_true", help="take the workloads that are stored instead of capturing the models")
    arguments = parser.parse_args()
    runs = read_published(PUBLISHED)
    workloads = stored(WORKLOADS) if arguments.stored or arguments.check else Workloads()
    outside = read_published(OUTSIDE)
    for run in (*runs, *outside):
        workloads.of(run)
    measured = cases(runs, workloads)
    fitted = fit(measured)
    left_out = leave_one_family_out(measured)
    rows, others = validate(runs, workloads, fitted), validate(outside, workloads, fitted)
    texts: Dict[Path, str] = {
        FILE: json.dumps(fitted.as_dict(), indent=1) + "\n",
        PAGE: validation_page(rows, fitted, left_out, others, {run.id: run.source for run in outside}),
    }
    if arguments.check:
        stale = [
            str(path.relative_to(ROOT)) for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
        ]
        if stale:
            print(f"Out of date: {', '.join(stale)}. Run python tools/calibrate.py.", file=sys.stderr)
        return 1 if stale else 0
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    if not arguments.stored:
        WORKLOADS.parent.mkdir(parents=True, exist_ok=True)
        store(workloads.known, WORKLOADS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
