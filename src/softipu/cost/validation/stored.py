"""Workloads on disk, so that a test or a fit need not capture every model again.

Layers repeat, so equal work, origins and names are written once and referred to by number; the file is gzipped JSON.
"""

import gzip
import json
from dataclasses import fields
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple, Union

from softipu.cost.validation.families import Model
from softipu.cost.validation.runs import Captured, Workloads
from softipu.cost.workload import Buffer, Op, Parameter, Workload
from softipu.errors import Error
from softipu.graph import Role
from softipu.graph.origin import Origin
from softipu.ops import Contraction, VectorOp, Work

SCHEMA = 1
_MODEL_FIELDS = tuple(f.name for f in fields(Model) if f.name not in ("module", "inputs"))


def store(workloads: Mapping[str, Captured], file: Union[str, Path]) -> None:
    """Writes workloads by their key."""
    data = {"schema": SCHEMA, "workloads": {key: _captured(one) for key, one in workloads.items()}}
    text = json.dumps(data, separators=(",", ":"), sort_keys=True)
    with open(file, "wb") as stream, gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:  # the same bytes every time
        packed.write(text.encode())


def stored(file: Union[str, Path]) -> Workloads:
    """The workloads of a file; those that are not in it are captured when asked for.

    Raises:
        Error: another schema.
    """
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        data = json.load(stream)
    if data.get("schema") != SCHEMA:
        raise Error(f"The file of workloads {str(file)!r} has schema {data.get('schema')!r}, not {SCHEMA}. Write it anew.")
    return Workloads({key: _read_captured(one) for key, one in data["workloads"].items()})


def _captured(one: Captured) -> Dict[str, Any]:
    workload = one.workload
    works: Dict[Work, int] = {}
    names: Dict[str, int] = {}
    ops = [
        [
            names.setdefault(op.name, len(names)), names.setdefault(op.origin.module, len(names)), int(op.origin.backward), op.origin.run,
            works.setdefault(op.work, len(works)), list(op.reads), list(op.writes),
        ]
        for op in workload.ops
    ]  # fmt: skip
    return {
        "model": {name: getattr(one.model, name) for name in _MODEL_FIELDS},
        "names": list(names),
        "works": [_work(work) for work in works],
        "ops": ops,
        "buffers": [[b.bytes, b.role.value if b.role else None, b.name, int(b.redrawn)] for b in workload.buffers],
        "parameters": [[p.name, p.elements, p.element_bytes, p.buffer] for p in workload.parameters],
        "gradients": [list(pair) for pair in workload.gradients],
        "outputs": sorted(workload.outputs),
        "training": workload.training,
    }


def _work(work: Work) -> List[Any]:
    contractions = [[getattr(c, f.name) for f in fields(Contraction)] for c in work.contractions]
    vector = [[kind.value, elements] for kind, elements in work.vector]
    return [work.family, contractions, vector, work.vector_bits, work.bytes_read, work.bytes_written, work.moved_bytes, work.n_supersteps]


def _read_captured(data: Dict[str, Any]) -> Captured:
    names, works = data["names"], [_read_work(work) for work in data["works"]]
    ops = tuple(
        Op(names[name], Origin(names[module], bool(backward), run), works[work], tuple(reads), tuple(writes))
        for name, module, backward, run, work, reads, writes in data["ops"]
    )
    buffers = tuple(Buffer(size, Role(role) if role else None, name, bool(redrawn)) for size, role, name, redrawn in data["buffers"])
    workload = Workload(
        ops,
        buffers,
        tuple(Parameter(*p) for p in data["parameters"]),
        tuple((name, number) for name, number in data["gradients"]),
        frozenset(data["outputs"]),
        data["training"],
    )
    return Captured(Model(module=None, inputs=(), **{name: _tuples(data["model"][name]) for name in _MODEL_FIELDS}), workload)


def _read_work(data: List[Any]) -> Work:
    family, contractions, vector, bits, read, written, moved, n_supersteps = data
    pairs: Tuple[Tuple[VectorOp, float], ...] = tuple((VectorOp(kind), elements) for kind, elements in vector)
    return Work(family, tuple(Contraction(*c) for c in contractions), pairs, bits, read, written, moved, n_supersteps)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
