"""replicaGrouping: values of a parameter that differ between groups of replicas."""

import copy
import pickle

import pytest
import torch
from torch import nn

from softipu import poptorch
from softipu.poptorch import CommGroupType, VariableRetrievalMode

ONE, ALL = VariableRetrievalMode.OnePerGroup, VariableRetrievalMode.AllReplicas


class Product(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.W = nn.Parameter(weight)

    def forward(self, X):
        Z = X @ self.W
        return Z, poptorch.identity_loss(Z**2, reduction="mean")


class Scale(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.arange(float(n)) + 1)

    def forward(self, x):
        return x * self.w


def scaled(n_groups, kind, shards, retrieval=ONE):
    options = poptorch.Options().replicationFactor(4)
    model = Scale(n_groups)
    executor = poptorch.inferenceModel(model, options)
    executor.w.replicaGrouping(kind, shards, retrieval)
    return executor(torch.ones(4)).tolist(), executor


@pytest.mark.parametrize(
    ("n_groups", "kind", "shards", "expected"),
    [
        (2, CommGroupType.Consecutive, 2, [1, 1, 2, 2]),
        (2, CommGroupType.Orthogonal, 2, [1, 2, 1, 2]),
        (4, CommGroupType.Consecutive, 1, [1, 2, 3, 4]),
        (4, CommGroupType.NoGrouping, 0, [1, 2, 3, 4]),
        (1, CommGroupType.Consecutive, 4, [1, 1, 1, 1]),
    ],
)
def test_each_replica_sees_the_value_of_its_group(n_groups, kind, shards, expected):
    assert scaled(n_groups, kind, shards)[0] == expected


def test_one_group_of_all_has_no_effect():
    options = poptorch.Options().replicationFactor(2)
    executor = poptorch.inferenceModel(Scale(1), options)
    executor.w.replicaGrouping(CommGroupType.All, 0, ONE)
    assert executor(torch.ones(2)).tolist() == [1, 1]


def test_host_reads_one_value_per_group_or_per_replica():
    _, executor = scaled(2, CommGroupType.Orthogonal, 2)
    executor.copyWeightsToHost()
    assert executor.model.w.tolist() == [1, 2]
    _, executor = scaled(2, CommGroupType.Orthogonal, 2, ALL)
    executor.copyWeightsToHost()
    assert executor.model.w.tolist() == [1, 2, 1, 2]
    executor.copyWeightsToDevice()
    assert executor(torch.ones(4)).tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("orthogonal", [True, False])
def test_tensor_parallel_training_equals_one_big_matrix(orthogonal):
    tensor_shards, data_shards = 4, 2
    torch.manual_seed(0)
    x, start = torch.randn(24, 10), torch.randn(10, 16) * 0.2
    whole = nn.Parameter(start.clone())
    optimizer = torch.optim.SGD([whole], lr=0.01)
    expected_losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = torch.mean((x @ whole) ** 2)
        loss.backward()
        optimizer.step()
        expected_losses.append(loss.detach())

    model = Product(start.reshape(10, tensor_shards, 4).transpose(0, 1).contiguous())
    kinds = [CommGroupType.Consecutive, CommGroupType.Orthogonal]
    of_inputs, of_weights = kinds[::-1] if orthogonal else kinds
    options = poptorch.Options().replicationFactor(data_shards * tensor_shards).outputMode(poptorch.OutputMode.All)
    options.inputReplicaGrouping(tensor_shards, of_inputs)
    executor = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.01))
    executor.W.replicaGrouping(of_weights, data_shards, ONE)
    losses = [executor(x.reshape(data_shards, 12, 10))[1].mean() for _ in range(4)]
    torch.testing.assert_close(torch.stack(losses), torch.stack(expected_losses))
    torch.testing.assert_close(model.W.detach().transpose(0, 1).reshape(10, 16), whole.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", [lambda p: torch.optim.AdamW(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)])
def test_ungrouped_replicas_train_each_on_its_own(optimizer):
    torch.manual_seed(0)
    start, x = torch.randn(4, 3, 2), torch.randn(4, 5, 3)
    model = Product(start.clone())
    options = poptorch.Options().replicationFactor(4)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    executor = poptorch.trainingModel(model, options, optimizer(model.parameters()))
    executor.W.replicaGrouping(CommGroupType.NoGrouping, 0, ONE)
    alone = [nn.Parameter(start[i].clone()) for i in range(4)]
    optimizers = [optimizer([w]) for w in alone]
    for _ in range(3):
        executor(x)
        for i, (w, o) in enumerate(zip(alone, optimizers)):
            o.zero_grad()
            torch.mean((x[i] @ w) ** 2).backward()
            o.step()
    torch.testing.assert_close(model.W.detach(), torch.stack([w.detach() for w in alone]))


def test_grouped_parameters_are_still_plain_to_others():
    model = Product(torch.ones(2, 2, 2))
    executor = poptorch.trainingModel(model, poptorch.Options().replicationFactor(2))
    executor.W.replicaGrouping(CommGroupType.NoGrouping, 0, ONE)
    assert type(copy.deepcopy(model).W) is nn.Parameter
    assert pickle.loads(pickle.dumps(model)).W.shape == (2, 2, 2)
    assert model.W.shape == (2, 2, 2)


@pytest.mark.parametrize(
    ("weight", "arguments", "error", "message"),
    [
        (torch.ones(()), (CommGroupType.Consecutive, 2, ONE), poptorch.Error, "'W' is a scalar"),
        (torch.ones(3), (CommGroupType.Consecutive, 2, ONE), poptorch.Error, "has 3 values .* 4 replicas in groups of 2 make 2 groups"),
        (torch.ones(2), (CommGroupType.Consecutive, 3, ONE), ValueError, r"must divide the replication factor \(4\), given 3"),
        (torch.ones(2), ("Consecutive", 2, ONE), ValueError, "needs a poptorch.CommGroupType, given 'Consecutive'"),
        (torch.ones(2), (CommGroupType.Consecutive, 2, 0), ValueError, "needs a poptorch.VariableRetrievalMode, given 0"),
    ],
)
@pytest.mark.parametrize("wrap", [poptorch.inferenceModel, poptorch.trainingModel])
def test_impossible_groups(wrap, weight, arguments, error, message):
    executor = wrap(Product(weight), poptorch.Options().replicationFactor(4))
    with pytest.raises(error, match=message):
        executor.W.replicaGrouping(*arguments)


def test_groups_are_declared_before_compiling():
    model = Product(torch.ones(2, 2))
    executor = poptorch.trainingModel(model, poptorch.Options().replicationFactor(2))
    executor(torch.ones(2, 2))
    with pytest.raises(poptorch.Error, match="before the model is compiled"):
        executor.W.replicaGrouping(CommGroupType.NoGrouping, 0, ONE)


def test_optimizers_with_norms_over_parameters_are_refused():
    model = Product(torch.ones(2, 2, 2))
    executor = poptorch.trainingModel(model, poptorch.Options().replicationFactor(2), poptorch.optim.LAMB(model.parameters()))
    executor.W.replicaGrouping(CommGroupType.NoGrouping, 0, ONE)
    with pytest.raises(poptorch.Error, match="no LAMB, no max_grad_norm"):
        executor(torch.ones(2, 2))
