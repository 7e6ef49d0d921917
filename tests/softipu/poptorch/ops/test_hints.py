"""Operations that are for hardware: they change no value, and refuse what hardware refuses."""

import collections

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from softipu.errors import Error
from softipu.poptorch.enums import MatMulSerializationMode, OverlapMode
from softipu.poptorch.ops.cast import cast
from softipu.poptorch.ops.hints import nop, recomputationCheckpoint, set_available_memory
from softipu.poptorch.ops.overlap import set_overlap_for_input, set_overlap_for_output
from softipu.poptorch.ops.serialized_matmul import serializedMatMul

A, B = torch.rand(4, 6, requires_grad=True), torch.rand(6, 8, requires_grad=True)
Pair = collections.namedtuple("Pair", ["left", "right"])
MODES = list(MatMulSerializationMode)


def test_values_and_gradients_pass_through():
    for hint in (nop, recomputationCheckpoint, lambda t: set_available_memory(t, 0.2)):
        (gradient,) = torch.autograd.grad((hint(A) * 2).sum(), A)
        assert torch.equal(hint(A), A) and torch.equal(gradient, torch.full_like(A, 2))


def test_checkpoints_keep_the_structure():
    assert recomputationCheckpoint(A, B) == (A, B)
    for structure in ([A, B], (A, B), [A], (A,), Pair(A, B), []):
        again = recomputationCheckpoint(structure)
        assert type(again) is type(structure) and all(old is new for old, new in zip(structure, again)) and len(again) == len(structure)


def test_overlap_keeps_the_structure():
    structure = {"x": A, "rest": [B, (A, B)]}
    for mark in (set_overlap_for_input, set_overlap_for_output):
        for mode in OverlapMode:
            assert mark(structure, mode) == structure
            assert mark(A, mode) is A


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("factor", [0, 1, 2])
def test_a_serialized_product_is_the_product(mode, factor):
    product = serializedMatMul(A, B, mode, factor, keep_precision=True)
    assert torch.equal(product, A @ B)
    expected = torch.autograd.grad((A @ B).sum(), [A, B])
    assert all(map(torch.equal, torch.autograd.grad(product.sum(), [A, B]), expected))


@pytest.mark.parametrize("mode, length", list(zip(MODES, [4, 6, 8])))
def test_a_factor_must_divide_the_dimension_that_is_split(mode, length):
    serializedMatMul(A, B, mode, length)
    with pytest.raises(Error, match=f"cannot split the dimension {mode.name} of length {length} into 5 parts"):
        serializedMatMul(A, B, mode, 5)


@pytest.mark.parametrize(
    "arguments, message",
    [((2, 2), "mode must be a poptorch.MatMulSerializationMode, given 2"), ((MODES[0], 2.0), "factor must be an int, given 2.0")],
)
def test_serialized_products_check_the_types_of_their_options(arguments, message):
    with pytest.raises(AssertionError, match=message):
        serializedMatMul(A, B, *arguments)
    with pytest.raises(AssertionError, match="keep_precision must be a bool, given 1"):
        serializedMatMul(A, B, MODES[0], 2, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool, torch.uint8])
def test_casts_to_types_of_the_device(dtype):
    assert cast(torch.tensor([0, 1, 2]), dtype).dtype == dtype


def test_other_casts_are_refused():
    for dtype in (torch.float64, torch.int64, torch.bfloat16, float):
        with pytest.raises(ValueError, match="Cannot cast to .*; the types of an IPU are torch.float32"):
            cast(A, dtype)


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda: nop(3), Error, r"nop must take a torch.tensor argument. <class 'int'> is not supported"),
        (lambda: set_available_memory(3, 0.1), Error, r"only set available memory for torch.tensor values. <class 'int'>"),
        (lambda: set_available_memory(A, 1.5), Error, r"Invalid available memory proportion 1.5: it must be a number between 0 and 1"),
        (lambda: set_available_memory(A, "0.1"), Error, r"Invalid available memory proportion '0.1'"),
        (lambda: recomputationCheckpoint(A, 3), ValueError, r"All inputs must be tensors; .* of type int"),
        (lambda: recomputationCheckpoint([A, [B]]), ValueError, r"All inputs must be tensors; .* of type list"),
        (lambda: set_overlap_for_input([A, 3], OverlapMode.NoOverlap), Error, r"set overlap for torch.tensor inputs. <class 'int'>"),
        (lambda: set_overlap_for_output({"x": "A"}, OverlapMode.NoOverlap), Error, r"set overlap for torch.tensor outputs. <class 'str'>"),
        (lambda: set_overlap_for_input(A, 1), Error, r"mode of overlapped inputs must be a poptorch.OverlapMode, given 1"),
    ],
)
def test_what_is_no_tensor_or_out_of_range_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_hints_can_be_captured():
    def forward(a, b):
        a, b = set_overlap_for_input((nop(a), b), OverlapMode.OverlapAccumulationLoop)
        a, b = recomputationCheckpoint(a, b)
        return set_available_memory(serializedMatMul(a, cast(b, torch.float32), MODES[0], 2), 0.4)

    traced = make_fx(forward, tracing_mode="fake")(torch.zeros(4, 6), torch.zeros(6, 8))
    assert torch.equal(traced(A, B), A @ B)
