"""A compiled model as a file: PopTorch's metadata, and unless it was left out the model with its optimizer and random state."""

import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import nn

from softipu.poptorch.inputs.input_mismatch import FlatCall
from softipu.poptorch.log import logger
from softipu.poptorch.options import Options
from softipu.poptorch.saved.archive import InvalidArchive, read_archive, write_archive
from softipu.poptorch.saved.call_form import read_call, write_call
from softipu.poptorch.saved.known_classes import UnknownClass
from softipu.poptorch.saved.module_form import read_module, write_module
from softipu.poptorch.saved.optimizer_form import read_optimizer, write_optimizer
from softipu.poptorch.saved.options_form import read_options, write_options
from softipu.poptorch.saved.values import ValueReader, ValueWriter

FORMAT = "lightning-ipu saved model"
DEFAULT_NAME = "model.poptorch"


@dataclass
class SavedModel:
    """What a file tells of a model.

    Attributes:
        version: PopTorch's version that wrote it.
        training: whether it was compiled by trainingModel.
        arguments: positional and named arguments of the full host batch size, zeros in the place of tensors.
        module, options: the model and its options; None when they were left out.
        optimizer: None for inference, or when it was left out.
        optimizer_state: tensors on the device, by name.
        rng_state: the device's random numbers; None when they were left out.
    """

    version: str
    training: bool
    arguments: Tuple[Tuple[Any, ...], Dict[str, Any]]
    module: Optional[nn.Module] = None
    options: Optional[Options] = None
    optimizer: Optional[torch.optim.Optimizer] = None
    optimizer_state: Optional[Dict[str, torch.Tensor]] = None
    rng_state: Optional[List[int]] = None


def destination(filename: str) -> str:
    """The file to write for a name; a folder gets the default name, and missing folders are made.

    Raises:
        AssertionError: the parent is there and no folder.
    """
    path = os.fspath(filename)
    if os.path.isdir(path):
        logger.warning("%s is an existing directory: the model is saved to %s", path, os.path.join(path, DEFAULT_NAME))
        path = os.path.join(path, DEFAULT_NAME)
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.exists(parent):
        logger.warning("Creating the directory %s for the saved model", parent)
        os.makedirs(parent)
    assert os.path.isdir(parent), f"Destination folder {parent} is not a directory"
    return path


def write(path: str, version: str, training: bool, call: FlatCall, model: Optional["Model"]) -> None:
    """Writes a file.

    Args:
        path: from ``destination``.
        version: PopTorch's version.
        training: whether the model was compiled by trainingModel.
        call: what it was compiled for.
        model: module, options and state; None leaves them out.

    Raises:
        CannotSave: something that has no form that is safe to read back.
    """
    writer = ValueWriter()
    document: Dict[str, Any] = {"format": FORMAT, "version": version, "training": training, "call": write_call(call, writer), "model": None}
    if model is not None:
        parameters = dict(model.module.named_parameters())
        document["model"] = {
            "module": write_module(model.module, writer),
            "options": write_options(model.options, writer),
            "optimizer": None if model.optimizer is None else write_optimizer(model.optimizer, parameters, writer),
            "optimizer_state": {name: writer.tensor(tensor) for name, tensor in model.optimizer_state.items()},
            "rng_state": model.rng_state,
        }
    write_archive(path, {"model": document}, writer.tensors)


@dataclass
class Model:
    """What ``write`` takes of a model besides the compiled call."""

    module: nn.Module
    options: Options
    optimizer: Optional[torch.optim.Optimizer]
    optimizer_state: Dict[str, torch.Tensor]
    rng_state: Optional[List[int]]


def read(path: str, version: str, *, with_model: bool) -> SavedModel:
    """Reads a file.

    Args:
        path: the file.
        version: PopTorch's version that must have written it.
        with_model: whether to make the module, options and optimizer.

    Raises:
        InvalidArchive: no saved model, damaged, or of classes that the program has not imported; the message says which.
        AssertionError: written by another version.
        OSError: it cannot be read.
    """
    archive = read_archive(path)
    try:
        document = archive.documents["model"]
        if document["format"] != FORMAT:
            raise InvalidArchive("it is no saved model of the software IPU")
        written_by = str(document["version"])
        assert written_by == version, (
            f"PopTorch version mismatch: {path} was written by {written_by}, and this is {version}. Save the model again with this version."
        )
        saved = SavedModel(written_by, bool(document["training"]), read_call(document["call"]))
        if with_model and document["model"] is not None:
            _read_model(saved, document["model"], archive.tensors)
    except UnknownClass as error:
        raise InvalidArchive(f"it needs a class that is not there: {error}") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise InvalidArchive(f"it is damaged ({type(error).__name__}: {error})") from error
    return saved


def _read_model(saved: SavedModel, form: Dict[str, Any], tensors: List[torch.Tensor]) -> None:
    reader = ValueReader(tensors)
    module = read_module(form["module"], tensors)
    saved.module = module
    saved.options = read_options(form["options"], reader)
    if form["optimizer"] is not None:
        saved.optimizer = read_optimizer(form["optimizer"], dict(module.named_parameters()), reader)
    saved.optimizer_state = {name: tensors[i] for name, i in form["optimizer_state"].items()}
    saved.rng_state = None if form["rng_state"] is None else [int(v) for v in form["rng_state"]]
