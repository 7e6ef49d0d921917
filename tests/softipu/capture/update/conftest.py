"""A host optimizer and the device's update of the same parameters, side by side."""

import math
from typing import Any, Callable, Dict, List, Optional

import pytest
import torch

from softipu.capture.update import Update, build_update, carry_state, export_state, hyper_values, new_state, read_optimizer

SHAPES = {"fc.weight": (6, 5), "fc.bias": (6,), "conv.weight": (3, 2, 2, 2)}
Parameters = Dict[str, torch.Tensor]


class SideBySide:
    """torch.optim's step() on host parameters, and the update graph on copies of them.

    Args:
        make: an optimizer from a list of parameters.
        named: the parameters; by default three small ones.
        form: of the update graph.
        gradient_scale: what the device's gradients are divided by beforehand, as a loss scale would.
        max_grad_norm: clips on both sides.
    """

    def __init__(
        self,
        make: Callable[[List[torch.Tensor]], torch.optim.Optimizer],
        named: Optional[Parameters] = None,
        form: str = "fused",
        gradient_scale: float = 1.0,
        max_grad_norm: float = math.inf,
        seed: int = 0,
    ) -> None:
        self.random = torch.Generator().manual_seed(seed)
        if named is None:
            named = {name: torch.randn(shape, generator=self.random) for name, shape in SHAPES.items()}
        self.host = {name: torch.nn.Parameter(t.clone()) for name, t in named.items()}
        self.device = {name: t.detach().clone() for name, t in named.items()}
        self.optimizer = make(list(self.host.values()))
        self.form, self.gradient_scale, self.max_grad_norm = form, gradient_scale, max_grad_norm
        self.state: Parameters = {}
        self.update: Optional[Update] = None
        self.rebuild()

    def rebuild(self) -> None:
        """As an executor does in setOptimizer."""
        spec = read_optimizer(self.optimizer, self.host)
        if self.update is None or spec != self.update.spec:
            flags = {"scaled": self.gradient_scale != 1.0, "clipped": self.max_grad_norm != math.inf}
            self.update = build_update(spec, self.device, form=self.form, **flags)
            self.state = carry_state(self.update, self.state, self.device) if self.state else new_state(self.update, self.device)

    def gradients(self) -> Parameters:
        return {name: torch.randn(p.shape, generator=self.random).to(p.dtype) for name, p in self.host.items()}

    def hyper(self) -> List[Any]:
        values: List[Any] = list(hyper_values(self.optimizer, self.update.spec))
        values += [self.gradient_scale] if self.update.scaled else []
        values += [self.max_grad_norm] if self.update.clipped else []
        return [torch.tensor(v, dtype=torch.float64) for v in values] if self.form == "elementwise" else values

    def step_device(self, gradients: Parameters) -> None:
        given = [(gradients[name] / self.gradient_scale).clone() for name in self.update.names("gradient")]
        weights = [self.device[name] for name in self.update.names("parameter")]
        states = [self.state[name] for name in self.update.names("state")]
        with torch.no_grad():
            assert self.update.graph_module(*weights, *given, *states, *self.hyper()) is None

    def step(self, n: int = 1) -> None:
        for _ in range(n):
            gradients = self.gradients()
            for name, p in self.host.items():
                p.grad = gradients[name].clone()
            if self.max_grad_norm != math.inf:
                torch.nn.utils.clip_grad_norm_(self.host.values(), self.max_grad_norm)
            self.optimizer.step()
            self.step_device(gradients)

    def exported(self) -> Dict[str, Any]:
        return export_state(self.update, self.state, self.optimizer)

    def check(self, tolerance: float = 1e-6) -> None:
        """Weights agree to ``tolerance`` of the largest weight of the tensor."""
        for name, expected in self.host.items():
            error = (self.device[name] - expected.detach()).abs().max() / expected.detach().abs().max()
            assert error <= tolerance, f"{name}: relative difference {error:.2e}"


@pytest.fixture
def side_by_side() -> Callable[..., SideBySide]:
    return SideBySide


@pytest.fixture(params=["fused", "elementwise"])
def form(request: pytest.FixtureRequest) -> str:
    return request.param
