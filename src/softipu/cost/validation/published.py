"""A file of published runs: model, run configuration, and what was measured."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from softipu.errors import Error

SCHEMA = 1
_RUN_KEYS = ("system", "ipus_per_replica", "replicas", "micro_batch", "phase")


@dataclass(frozen=True)
class PublishedRun:
    """One run.

    Attributes:
        id: as the file names it.
        model: its family and sizes.
        run: the configuration, as the file gives it.
        items_per_second: measured over all replicas; None when it was not.
        fits: whether the run fits; None when only its throughput was published.
        source: where it was published.
    """

    id: str
    model: Mapping[str, Any]
    run: Mapping[str, Any]
    items_per_second: Optional[float]
    fits: Optional[bool]
    source: str = ""

    @property
    def family(self) -> str:
        return str(self.model.get("family"))

    @property
    def training(self) -> bool:
        return self.run["phase"] == "training"


def read_published(file: Union[str, Path]) -> Tuple[PublishedRun, ...]:
    """The runs of a file, in order.

    Raises:
        Error: no such file, not JSON, another schema, or an entry that lacks something; names the entry.
    """
    path = Path(file)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Error(f"Cannot read the file of published runs {str(path)!r}: {error.strerror}. Give the path of a JSON file.") from error
    except ValueError as error:
        raise Error(f"The file of published runs {str(path)!r} is not JSON: {error}.") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise Error(f"The file {str(path)!r} has schema {schema!r}; this version reads schema {SCHEMA}: {{'schema': 1, 'entries': [...]}}.")
    return tuple(_entry(number, entry) for number, entry in enumerate(data.get("entries", ())))


def _entry(number: int, entry: Dict[str, Any]) -> PublishedRun:
    name = entry.get("id", f"number {number}")
    for key in ("id", "model", "run"):
        if key not in entry:
            raise Error(f"Entry {name} of the published runs lacks {key!r}. An entry has id, model, run, measured and source.")
    missing = [key for key in _RUN_KEYS if key not in entry["run"]]
    if missing:
        raise Error(f"The run of entry {name} lacks {', '.join(map(repr, missing))}. It must have {', '.join(_RUN_KEYS)}.")
    measured = entry.get("measured", {})
    return PublishedRun(
        str(entry["id"]), entry["model"], entry["run"], measured.get("items_per_second"), measured.get("fits"), entry.get("source", "")
    )
