"""What `lightning-ipu validate FILE` prints."""

import json
from pathlib import Path
from typing import Union

from softipu.cost.validation.published import read_published
from softipu.cost.validation.runs import validate
from softipu.errors import Error
from softipu.report.validation import validation_dict, validation_text

FORMATS = ("text", "json")


def validate_output(file: Union[str, Path], form: str = "text") -> str:
    """Prices every run of a file of published runs.

    Args:
        file: of the format of ``softipu/hardware/calibration/published.json``.
        form: "text" for a table, "json" for {"schema": 1, "rows": [...]}.

    Raises:
        Error: another form, or a file that cannot be read. A run that cannot be priced is a row that says why.
    """
    if form not in FORMATS:
        raise Error(f"Unknown format {form!r} of a validation; allowed are {' and '.join(FORMATS)}.")
    rows = validate(read_published(file))
    return json.dumps(validation_dict(rows), indent=2) + "\n" if form == "json" else validation_text(rows)
