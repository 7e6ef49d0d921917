"""A zip file of JSON documents and of the bytes of tensors.

documents.json      {"name": document}
tensors.json        [[dtype, [shape], offset, bytes], ...]
tensors             all their bytes, little-endian, row-major
"""

import json
import os
import sys
import zipfile
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

import torch

_DTYPES = {
    str(dtype)[6:]: dtype
    for dtype in (
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
        torch.bool, torch.complex64, torch.complex128,
    )
}  # fmt: skip


class InvalidArchive(Exception):
    """The file is none of ours, or damaged; the message says which."""


class Archive(NamedTuple):
    """What a file holds."""

    documents: Dict[str, Any]
    tensors: List[torch.Tensor]


def write_archive(path: str, documents: Mapping[str, Any], tensors: Sequence[torch.Tensor]) -> None:
    """Writes a file; one that is there is replaced when the new one is complete."""
    assert sys.byteorder == "little", "Saved models are little-endian, this machine is not."
    index, offset = [], 0
    temporary = f"{path}.{os.getpid()}.part"
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as file:
        file.writestr("documents.json", json.dumps(documents))
        with file.open("tensors", "w", force_zip64=True) as blob:
            for tensor in tensors:
                data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
                index.append([str(tensor.dtype)[6:], list(tensor.shape), offset, len(data)])
                blob.write(data)
                offset += len(data)
        file.writestr("tensors.json", json.dumps(index))
    os.replace(temporary, path)


def read_archive(path: str) -> Archive:
    """Reads a file.

    Raises:
        InvalidArchive: no file of this kind, or damaged.
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as file:
            documents = json.loads(file.read("documents.json"))
            index = json.loads(file.read("tensors.json"))
            data = bytearray(file.read("tensors"))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise InvalidArchive(f"it is no saved model, or damaged ({error})") from error
    if not isinstance(documents, dict) or not isinstance(index, list):
        raise InvalidArchive("its documents are not what a saved model has")
    return Archive(documents, [_tensor(entry, data) for entry in index])


def _tensor(entry: Any, data: bytearray) -> torch.Tensor:
    try:
        name, shape, offset, n_bytes = entry
        dtype = _DTYPES[name]
        piece = data[offset : offset + n_bytes]
        if len(piece) != n_bytes or offset < 0:
            raise ValueError("bytes are missing")
        if not n_bytes:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(piece, dtype=torch.uint8).view(dtype).reshape(shape)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InvalidArchive(f"a tensor is damaged ({error})") from error
