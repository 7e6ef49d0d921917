"""Random small models train as in eager PyTorch: outputs, losses, weights and buffers.

100 models in the ordinary run; SOFTIPU_RANDOM_MODELS=2000 draws as many as it says.
"""

import copy
import os

import torch
from hypothesis import HealthCheck, given, settings

from softipu import poptorch
from tests.softipu.poptorch.random_models import OPTIMIZERS, Drawn, Model, models

N_MODELS = int(os.environ.get("SOFTIPU_RANDOM_MODELS", "100"))


def eager(model, drawn, x):
    """Outputs and losses of every micro-batch, and the model after the updates, as PopTorch orders them."""
    model = copy.deepcopy(model)
    optimizer = OPTIMIZERS[drawn.optimizer](model.parameters())
    micro_batches = iter(x.split(drawn.n_rows))
    first_replica = copy.deepcopy(dict(model.named_buffers()))
    others = [copy.deepcopy(first_replica) for _ in range(drawn.replicas - 1)]
    outputs, losses = [], []
    for _ in range(drawn.iterations):
        optimizer.zero_grad()
        for _ in range(drawn.accumulation):
            for replica in range(drawn.replicas):
                own = first_replica if replica == 0 else others[replica - 1]
                load(model, own)
                y, loss = model(next(micro_batches))
                own.update({n: b.clone() for n, b in model.named_buffers()})
                (loss / (drawn.accumulation * drawn.replicas)).backward()
                outputs.append(y.detach())
                losses.append(loss.detach())
        optimizer.step()
    load(model, first_replica)
    return torch.cat(outputs), torch.stack(losses), model


def load(model, buffers):
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])


@settings(max_examples=N_MODELS, deadline=None, derandomize=N_MODELS == 100, suppress_health_check=list(HealthCheck))
@given(models())
def test_random_model_trains_as_eager_torch(drawn: Drawn):
    torch.manual_seed(drawn.seed)
    expected = Model(list(drawn.pieces), drawn.loss)
    model = copy.deepcopy(expected)
    options = poptorch.Options().deviceIterations(drawn.iterations).replicationFactor(drawn.replicas)
    options.outputMode(poptorch.OutputMode.All).Training.gradientAccumulation(drawn.accumulation)
    executor = poptorch.trainingModel(model, options, OPTIMIZERS[drawn.optimizer](model.parameters()))
    x = torch.randn(drawn.n_rows * drawn.iterations * drawn.accumulation * drawn.replicas, *drawn.pieces[0].shape)
    y, losses = executor(x)
    # The kernel behind gelu's gradient in torch 2.0 reads beyond the memory of a transposed one.
    with torch.backends.mkldnn.flags(enabled=not torch.__version__.startswith("2.0.")):
        expected_y, expected_losses, expected = eager(expected, drawn, x)
    close(y, expected_y)
    close(losses.reshape(-1), expected_losses)
    for (name, got), wanted in zip(model.state_dict().items(), expected.state_dict().values()):
        close(got, wanted, name)
    executor.destroy()


def close(got, wanted, name=""):
    # Kernels may add in another order; what that does to a sum grows with its terms, not with its value.
    # A gradient that overflows makes the same weights NaN here and there.
    torch.testing.assert_close(got, wanted, rtol=2e-4, atol=2e-5, equal_nan=True, msg=lambda m: f"{name}: {m}")
