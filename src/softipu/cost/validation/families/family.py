"""What a family gives: a module without weights, how it is called, and where its layers are."""

import importlib
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from softipu.errors import Error, first_line

# family -> file in this folder and function of it
_FILES: Dict[str, Tuple[str, str]] = {
    "resnet18": ("resnet", "resnet"),
    "resnet34": ("resnet", "resnet"),
    "resnet50": ("resnet", "resnet"),
    "resnet101": ("resnet", "resnet"),
    "resnet152": ("resnet", "resnet"),
    "bert-pretraining": ("bert", "pretraining"),
    "bert-question-answering": ("bert", "question_answering"),
    "bert-classification": ("bert", "classification"),
    "gpt2": ("gpt2", "gpt2"),
    "gptj": ("gptj", "gptj"),
    "vit": ("vit", "vit"),
    "swin": ("swin", "swin"),
    "conformer": ("conformer", "conformer"),
}


@dataclass(frozen=True)
class Model:
    """A module on the meta device, ready for capture.

    Attributes:
        module: takes the tensors of ``inputs`` and returns the loss in training, the outputs in inference.
        inputs: one micro-batch; shapes and types only.
        layers: paths of the repeated layers, in order of the forward pass; a plan counts them.
        halves: path of the module at which the second half of each layer begins; empty where layers have no halves.
        head: path of the module that runs after the layers and may have a stage of its own; empty if there is none.
        tied: whether the head shares its weights with the embedding, so that both live on one IPU.
        residual_adds: paths of the modules whose outputs are sums of a residual connection.
        serialized: paths of the modules that an embedding_serialization cuts into parts.
        begins: path of each name that a split may mention, such as "encoder 2".
    """

    module: Optional[nn.Module]
    inputs: Tuple[torch.Tensor, ...]
    layers: Tuple[str, ...]
    halves: Tuple[str, ...] = ()
    head: str = ""
    tied: bool = False
    residual_adds: Tuple[str, ...] = ()
    serialized: Tuple[str, ...] = ()
    begins: Tuple[Tuple[str, str], ...] = ()

    def forward(self, tensors: List[torch.Tensor]) -> List[torch.Tensor]:
        """The module as capture calls it."""
        assert self.module is not None
        result = self.module(*tensors)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def without_module(self) -> "Model":
        """The same without module and inputs, which take memory and are not needed after capture."""
        return replace(self, module=None, inputs=())


def families() -> Tuple[str, ...]:
    """Names of the families."""
    return tuple(_FILES)


def build(model: Mapping[str, Any], *, micro_batch: int, training: bool, dtype: torch.dtype) -> Model:
    """The model that an entry of a file of published runs names.

    Args:
        model: its sizes, and the name under "family".

    Raises:
        Error: an unknown family, or a size that is missing; or transformers is not installed.
    """
    if not model.get("family"):
        raise Error(f'A model has no family. Give its "family": {", ".join(_FILES)}.')
    name = str(model.get("family"))
    known = {_plain(one): one for one in _FILES}
    if _plain(name) not in known:
        raise Error(f"Unknown model family {name!r}. Known are {', '.join(_FILES)}. Add a file to softipu/cost/validation/families.")
    name = known[_plain(name)]
    file, function = _FILES[name]
    try:
        make: Callable[..., Model] = getattr(importlib.import_module(f"softipu.cost.validation.families.{file}"), function)
    except ImportError as error:
        raise Error(
            f"The family {name!r} is built from transformers, which cannot be imported ({error}). Install it: pip install transformers."
        ) from error
    try:
        with torch.device("meta"), _NumbersOnHost():
            built = make({**model, "family": name}, micro_batch, training)
    except KeyError as error:
        raise Error(f"The model {dict(model)} lacks {error}, which the family {name!r} needs. Add it to the file.") from error
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:  # transformers and torch on sizes that do not go together
        raise Error(f"The model {dict(model)} cannot be built: {first_line(error)}. Check its sizes.") from error
    assert built.module is not None
    built.module.to(dtype).train(training)
    return replace(built, inputs=tuple(t.to(dtype) if t.is_floating_point() else t for t in built.inputs))


class _NumbersOnHost(TorchFunctionMode):
    """Constructors may read what they make by linspace, such as rates that rise from layer to layer; it gets values."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.linspace:
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


def _plain(name: str) -> str:
    """ "GPT-J" and "gptj" are one family."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
