"""trainingModel against eager torch, which runs each micro-batch by hand: weights after 100 updates."""

import copy
import itertools

import pytest
import torch

from softipu import poptorch
from tests.softipu.small_models import MODELS, OPTIMIZERS

N_UPDATES = 100
MICRO_BATCH = 4
SHAPES = [(r, g, d) for r in (1, 2, 4) for g in (1, 3) for d in (1, 5)]


def reference(model, make_optimizer, batches, n_replicas, n_accumulated):
    """Eager torch: gradients averaged over micro-batches, buffers per replica, one step per update."""
    optimizer = make_optimizer([p for p in model.parameters() if p.requires_grad])
    buffers = [{n: b.clone() for n, b in model.named_buffers()} for _ in range(n_replicas)]
    rows = iter(batches)
    for _ in range(N_UPDATES):
        optimizer.zero_grad()
        for _ in range(n_accumulated):
            for replica in range(n_replicas):
                _load(model, buffers[replica])
                (model(*next(rows)) / (n_accumulated * n_replicas)).backward()
                buffers[replica] = {n: b.clone() for n, b in model.named_buffers()}
        optimizer.step()
    _load(model, buffers[0])
    return model


def _load(model, buffers):
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])


def on_ipu(model, make_optimizer, batches, n_replicas, n_accumulated, n_iterations):
    options = poptorch.Options().deviceIterations(n_iterations).replicationFactor(n_replicas)
    options.Training.gradientAccumulation(n_accumulated)
    executor = poptorch.trainingModel(model, options, make_optimizer([p for p in model.parameters() if p.requires_grad]))
    per_call = n_replicas * n_accumulated * n_iterations
    for start in range(0, len(batches), per_call):
        executor(*(torch.cat(column) for column in zip(*batches[start : start + per_call])))
    executor.copyWeightsToHost()
    return model


def relative_error(got, want):
    a, b = (torch.cat([t.detach().double().flatten() for t in m.state_dict().values()]) for m in (got, want))
    return ((a - b).norm() / b.norm()).item()


# Each model meets each optimizer; shapes rotate, so that every shape meets every model and every optimizer.
CASES = [
    (model, name, SHAPES[(5 * i + 7 * j + k) % len(SHAPES)])
    for (i, model), (j, name), k in itertools.product(enumerate(MODELS), enumerate(OPTIMIZERS), range(2))
]


@pytest.mark.parametrize("model, optimizer, shape", CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_weights_after_100_updates_equal_eager_torch(model, optimizer, shape):
    n_replicas, n_accumulated, n_iterations = shape
    torch.manual_seed(0)
    host = model()
    device = copy.deepcopy(host)
    generator = torch.Generator().manual_seed(1)
    batches = [model.batch(MICRO_BATCH, generator) for _ in range(N_UPDATES * n_replicas * n_accumulated)]
    start = copy.deepcopy(host)
    want = reference(host, OPTIMIZERS[optimizer], batches, n_replicas, n_accumulated)
    got = on_ipu(device, OPTIMIZERS[optimizer], batches, n_replicas, n_accumulated, n_iterations)
    assert relative_error(start, want) > 1e-3, "training moved the weights"
    assert relative_error(got, want) < 1e-5


def test_every_shape_meets_every_model_and_optimizer_kind():
    assert {shape for _, _, shape in CASES} == set(SHAPES)


def test_tied_weights_stay_one_tensor():
    model = MODELS[-1]()
    executor = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1))
    executor(*model.batch(4, torch.Generator().manual_seed(0)))
    executor.copyWeightsToHost()
    assert model.output.weight is model.embedding.weight
