"""plan.json: a plan on disk, for people to read and keep beside a model. Its format is described by ``plan.schema.json``."""

import json
from pathlib import Path
from typing import Optional, Union

from softipu.errors import Error
from softipu.report.plan import PLAN_SCHEMA, Plan
from softipu.report.plan_report import PlanReport

_NOT_READ = ("predicted",)


def write_plan(path: Union[str, Path], report: PlanReport) -> None:
    """Writes the plan of a report, with what the cost model predicted for it."""
    worst = report.cost.worst_ipu
    predicted = {
        "system": report.cost.system,
        "model": report.model,
        "items_per_second": report.cost.items_per_second,
        "fullest_tile_fraction": worst.worst_tile_bytes / worst.tile_available_bytes,
    }
    data = {**report.plan.as_dict(), "predicted": predicted}
    Path(path).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def read_plan(path: Union[str, Path]) -> Plan:
    """The plan in a file that ``write_plan`` or a person wrote; values that are not given have the defaults of ``Plan``.

    Raises:
        Error: no such file, no JSON, another schema, or a value that a plan cannot have; the file is named.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Error(f"The plan {str(path)!r} cannot be read: {error.strerror}. Write one with `lightning-ipu plan --search`.") from error
    try:
        data = json.loads(text)
    except ValueError as error:
        raise Error(f"The plan {str(path)!r} is not JSON: {error}. Write one with `lightning-ipu plan --search`.") from error
    if not isinstance(data, dict):
        example = f'{{"schema": {PLAN_SCHEMA}, "stages": [...]}}'
        raise Error(f"The plan {str(path)!r} holds a {type(data).__name__}; it must be an object such as {example}.")
    try:
        return Plan.from_dict({key: value for key, value in data.items() if key not in _NOT_READ})
    except Error as error:
        raise Error(f"The plan {str(path)!r} cannot be used. {error.message}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise Error(
            f"The plan {str(path)!r} has a value that a plan cannot have: {error}. Its format is softipu/report/plan.schema.json."
        ) from error


def planned_model(path: Union[str, Path]) -> Optional[str]:
    """Class of the model that a file read by ``read_plan`` was written for, if it says so."""
    predicted = json.loads(Path(path).read_text(encoding="utf-8")).get("predicted")
    model = predicted.get("model") if isinstance(predicted, dict) else None
    return model if isinstance(model, str) else None
