"""Differences between a call and the compiled one are told in PopTorch's words and order."""

import dataclasses
import re

import pytest
import torch

from softipu.errors import Error, InputMismatchError
from softipu.poptorch.inputs.input_mismatch import check_same_inputs, describe_mismatch, flatten_call
from softipu.poptorch.inputs.structure import flatten

x = torch.ones(2)


def check(compiled, given, compiled_named=None, given_named=None):
    names = ["t", "u", "v"]
    _, first = flatten_call(names[: len(compiled)], compiled, compiled_named or {})
    _, second = flatten_call(names[: len(given)], given, given_named or {})
    check_same_inputs(first, second)


@dataclasses.dataclass
class Holder:
    x: object
    n: int = 0


@pytest.mark.parametrize(
    "compiled, given, message",
    [
        ([x, 2], [x], "Number of positional arguments mismatch: expected 2 arguments but got 1."),
        ([x], [None], "Type mismatch for t: expected <class 'torch.Tensor'> but got <class 'NoneType'>."),
        ([(x,)], [[x]], "Type mismatch for t: expected <class 'tuple'> but got <class 'list'>."),
        ([1], [True], "Type mismatch for t: expected <class 'int'> but got <class 'bool'>."),
        ([x, (x, x)], [x, (x, x, x)], "Length mismatch for u: expected 2 elements but got 3."),
        ([[x]], [[]], "Length mismatch for t: expected 1 elements but got 0."),
        ([{"a": x}], [{"a": x, "b": x}], "Keys mismatch for t: Unexpected arguments: b."),
        ([{"a": x, "b": x}], [{"b": x}], "Keys mismatch for t: Missing arguments: a."),
        ([{"a": x}], [{"b": x}], "Keys mismatch for t: Unexpected arguments: b. Missing arguments: a."),
        ([(x, x)], [(x, x.long())], "Data type mismatch for t[1]: expected torch.float32 but got torch.int64."),
        ([{"k": [x]}], [{"k": [x[:1]]}], "Shape mismatch for t[k][0]: expected torch.Size([2]) but got torch.Size([1])."),
        ([x, 5], [x, 3], "Value mismatch for u: expected 5 but got 3."),
        ([Holder(x)], [Holder(x.half())], "Data type mismatch for t.x: expected torch.float32 but got torch.float16."),
        ([Holder(x, 1)], [Holder(x, 2)], "Value mismatch for t.n: expected 1 but got 2."),
        ([Holder(x)], [Holder(None)], "Value mismatch for t: expected 1 tensors in"),
    ],
)
def test_first_difference_is_named_and_followed_by_advice(compiled, given, message):
    with pytest.raises(InputMismatchError, match=re.escape(message)) as caught:
        check(compiled, given)
    assert caught.value.message.endswith("or call destroy() on this one and call it again.")
    assert isinstance(caught.value, Error)


def test_dtype_is_told_before_shape():
    with pytest.raises(InputMismatchError, match="Data type mismatch"):
        check([x], [torch.ones(5, dtype=torch.int64)])


def test_named_arguments_go_by_their_names():
    with pytest.raises(InputMismatchError, match="Keys mismatch for named arguments: Missing arguments: m."):
        check([x], [x], {"m": x, "z": x}, {"z": x})
    with pytest.raises(InputMismatchError, match="Value mismatch for z: expected 1 but got 2."):
        check([x], [x], {"z": 1}, {"z": 2})


def test_equal_calls_pass_whatever_the_order_of_keys():
    check([x, {"a": x, "b": x.long()}, None], [x + 1, {"b": x.long(), "a": x}, None], {"p": 1, "q": x}, {"q": x, "p": 1})


def test_tensors_after_a_dict_are_compared_with_their_own():
    with pytest.raises(InputMismatchError, match="Shape mismatch for u"):
        check([{"b": x, "a": x.long()}, x], [{"a": x.long(), "b": x}, x[:1]])


def test_single_values_can_be_compared():
    tensors, spec = flatten([x])
    others, other_spec = flatten([x.half()])
    assert describe_mismatch("out", spec, tensors, spec, tensors) is None
    assert describe_mismatch("out", spec, tensors, other_spec, others).startswith("Data type mismatch for out[0]")
