"""``ipu_param``: the numbers that a device uses, by PopART's names, one entry for each parameter and kind.

learningRate___specific___<parameter>     of Adam, AdamW, LAMB and RMSprop
scaledLearningRate0___specific___<p>      of SGD without momentum: lr / loss scaling
scaledLearningRate2___specific___<p>      of SGD with momentum: lr / loss scaling, for the velocity is scaled as the loss
weightDecayScaleFactor0___specific___<p>  of SGD without momentum: 1 - lr * weight decay
lossScaling_FLOAT                         of the whole optimizer
"""

import sys
from dataclasses import replace
from typing import Dict, Iterator, List, Mapping, Tuple

import torch

from softipu.capture.update.rules import RULES
from softipu.capture.update.spec import GroupSpec, OptimizerSpec

_ADAM = {"lr": "learningRate", "weight_decay": "weightDecay", "beta1": "adamBeta1", "beta2": "adamBeta2", "eps": "adamEps"}
_WORDS: Dict[str, Dict[str, str]] = {
    "Adam": _ADAM,
    "AdamW": _ADAM,
    "LAMB": {**_ADAM, "max_weight_norm": "maxWeightNorm"},
    "RMSprop": {
        "lr": "learningRate",
        "weight_decay": "weightDecay",
        "alpha": "adaptiveAlpha",
        "eps": "adaptiveEps",
        "momentum": "adaptiveMomentum",
    },
}
_LOSS_SCALING = "lossScaling_FLOAT"


def numbers_to_param(spec: OptimizerSpec, hyper: Mapping[str, float], loss_scaling: float) -> Dict[str, torch.Tensor]:
    """The numbers as 0-d float32 tensors.

    Args:
        spec: what ``hyper`` belongs to.
        hyper: by ``Update.hyper``: ``lr_0``, ``beta1_0``, ... with the group's position.
        loss_scaling: the optimizer's factor on the loss.
    """
    found = {_LOSS_SCALING: torch.tensor(float(loss_scaling))}
    for index, group in enumerate(spec.groups):
        if not group.parameters:
            continue
        numbers = _read(hyper, index)
        for word, value in _encoded(spec, group, numbers, loss_scaling):
            for name in group.parameters:
                found[f"{word}___specific___{name}"] = torch.tensor(value)
    return found


def param_to_numbers(
    spec: OptimizerSpec, param: Mapping[str, torch.Tensor], hyper: Mapping[str, float], loss_scaling: float
) -> Tuple[OptimizerSpec, Dict[str, float], float]:
    """The inverse: ``spec``, ``hyper`` and the loss scaling with those numbers replaced that ``param`` has.

    A group whose parameters have got different numbers becomes several, next to each other, one for each choice of numbers.
    A weight decay or a dampening that was zero is switched on where it has got a value; a momentum is not, as it needs a state.
    A number whose entry is what it would be anyway keeps all digits of its Python float.
    """
    scaling = float(param[_LOSS_SCALING]) if _LOSS_SCALING in param else loss_scaling
    groups: List[GroupSpec] = []
    result: Dict[str, float] = {}
    for index, group in enumerate(spec.groups):
        numbers = _read(hyper, index)
        alike: Dict[Tuple[Tuple[str, float], ...], List[int]] = {}
        for place, name in enumerate(group.parameters):
            alike.setdefault(tuple(_numbers_of(spec, group, name, param, numbers, scaling).items()), []).append(place)
        if not alike:
            groups.append(group)
        for found, places in alike.items():
            own = dict(found)
            part = replace(
                group,
                parameters=tuple(group.parameters[place] for place in places),
                positions=tuple(group.positions[place] for place in places),
                weight_decay=group.weight_decay or own.get("weight_decay", 0.0) != 0.0,
                dampening=group.dampening or (group.momentum and own.get("dampening", 0.0) != 0.0),
            )
            wanted = RULES[spec.rule].hyper(spec, part)
            result.update({f"{name}_{len(groups)}": own[name] for name in wanted})
            groups.append(part)
    return replace(spec, groups=tuple(groups)), result, scaling


def _numbers_of(
    spec: OptimizerSpec, group: GroupSpec, name: str, param: Mapping[str, torch.Tensor], old: Dict[str, float], scaling: float
) -> Dict[str, float]:
    """One parameter's numbers: those of ``param``, and ``old`` where it has none or says the same."""
    words = {key.split("___", 1)[0]: float(value) for key, value in _of(param, name)}
    same = [word for word, value in _encoded(spec, group, old, scaling) if words.get(word) == float(torch.tensor(value))]
    return {**old, **_decoded(spec, group, {word: value for word, value in words.items() if word not in same}, old, scaling)}


def _read(hyper: Mapping[str, float], index: int) -> Dict[str, float]:
    suffix = f"_{index}"
    return {name[: -len(suffix)]: value for name, value in hyper.items() if name.endswith(suffix)}


def _of(param: Mapping[str, torch.Tensor], name: str) -> List[Tuple[str, torch.Tensor]]:
    return [(key, value) for key, value in param.items() if key.endswith(f"___specific___{name}")]


def _encoded(spec: OptimizerSpec, group: GroupSpec, numbers: Dict[str, float], scaling: float) -> Iterator[Tuple[str, float]]:
    decay = numbers.get("weight_decay", 0.0)
    if spec.rule != "SGD":
        for name, word in _WORDS[spec.rule].items():
            if name in numbers or name == "weight_decay":
                yield word, numbers.get(name, 0.0)
    elif not group.momentum:
        yield "scaledLearningRate0", numbers["lr"] / scaling
        yield "weightDecayScaleFactor0", 1.0 - numbers["lr"] * decay
    else:
        yield "scaledLearningRate2", numbers["lr"] / scaling
        yield "scaledMomentum2", numbers["momentum"]
        yield "dampeningScaleFactor2", 1.0 - numbers.get("dampening", 0.0)
        yield "weightDecay", decay


def _decoded(spec: OptimizerSpec, group: GroupSpec, words: Dict[str, float], old: Dict[str, float], scaling: float) -> Dict[str, float]:
    if spec.rule != "SGD":
        return {name: words[word] for name, word in _WORDS[spec.rule].items() if word in words}
    found: Dict[str, float] = {}
    if not group.momentum:
        if "scaledLearningRate0" in words:
            found["lr"] = words["scaledLearningRate0"] * scaling
        lr = found.get("lr", old.get("lr", 0.0))
        if "weightDecayScaleFactor0" in words and lr:
            found["weight_decay"] = (1.0 - words["weightDecayScaleFactor0"]) / lr
        return found
    if "scaledLearningRate2" in words:
        found["lr"] = words["scaledLearningRate2"] * scaling
    if "scaledMomentum2" in words:
        found["momentum"] = words["scaledMomentum2"] or sys.float_info.min  # the fused kernel takes no velocities with exactly zero
    if "dampeningScaleFactor2" in words:
        found["dampening"] = 1.0 - words["dampeningScaleFactor2"]
    if "weightDecay" in words:
        found["weight_decay"] = words["weightDecay"]
    return found
