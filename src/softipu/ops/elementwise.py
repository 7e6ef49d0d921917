"""Ops on each element by itself. The tables say which kinds of arithmetic one element takes."""

from typing import Dict, Tuple

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import bits_of, inputs_of, results_of, traffic
from softipu.ops.work import VectorOp as V
from softipu.ops.work import Work

_FAMILY = "elementwise"

# Names also stand for their in-place forms.
KINDS: Dict[Tuple[V, ...], Tuple[str, ...]] = {
    (V.ADD,): ("add", "sub", "mul", "rsub", "multiply", "subtract", "complex"),
    (V.SCALE,): ("neg", "square", "abs", "sign", "sgn", "floor", "ceil", "round", "trunc", "frac", "positive", "conj_physical"),
    (V.COMPARE,): (
        "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge", "where", "logical_and", "logical_or", "logical_xor",
        "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "__and__", "__or__", "__xor__", "masked_fill",
        "isnan", "isinf", "isfinite", "isposinf", "isneginf", "clamp_min", "clamp_max", "signbit", "copysign", "heaviside",
        "__lshift__", "__rshift__", "bitwise_left_shift", "bitwise_right_shift",
    ),
    (V.COMPARE, V.COMPARE): ("clamp", "clip", "nan_to_num"),
    (V.DIVIDE,): ("div", "true_divide", "divide", "fmod", "remainder", "floor_divide", "gcd", "lcm"),
    (V.INVERSE,): ("reciprocal",),
    (V.SQRT,): ("sqrt",),
    (V.RSQRT,): ("rsqrt",),
    (V.EXP,): ("exp", "exp2", "expm1"),
    (V.LOG,): ("log", "log2", "log10", "log1p"),
    (V.TANH,): ("tanh", "sinh", "cosh"),
    (V.SIGMOID,): ("sigmoid", "log_sigmoid"),
    (V.RELU,): ("relu", "relu6", "threshold", "hardtanh", "leaky_relu", "_prelu_kernel", "hardsigmoid"),
    (V.RELU, V.ADD): ("hardswish", "softshrink", "hardshrink"),
    (V.EXP, V.RELU): ("elu", "celu", "selu"),
    (V.SIGMOID, V.ADD): ("silu", "glu", "mish"),
    (V.EXP, V.LOG): ("softplus", "logaddexp", "logaddexp2", "logit", "log_sigmoid_forward"),
    (V.EXP, V.DIVIDE): ("xlogy",),
    (V.ERF,): ("erf", "erfc", "erfinv", "gelu", "special_erfcx", "lgamma", "digamma", "polygamma"),
    (V.TRIGONOMETRY,): ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "angle"),
    (V.TRIGONOMETRY, V.DIVIDE): ("sinc", "special_sinc"),
    (V.POWER,): ("pow", "float_power"),
    (V.ADD, V.ADD): ("addcmul", "lerp"),
    (V.ADD, V.DIVIDE): ("addcdiv",),
    (V.ADD, V.ADD, V.ADD): ("cross", "linalg_cross"),  # two products and their difference
    (V.LOG, V.ADD): ("special_entr", "special_xlog1py"),
    # Bessel functions: a polynomial where the argument is small, else one times an exponential, or a wave over a root; a machine
    # without branches for each element computes both.
    (V.ERF, V.EXP): (
        "i0", "special_i0", "special_i0e", "special_i1", "special_i1e", "special_modified_bessel_i0", "special_modified_bessel_i1",
    ),
    (V.ERF, V.LOG, V.RSQRT): (
        "special_modified_bessel_k0", "special_modified_bessel_k1", "special_scaled_modified_bessel_k0",
        "special_scaled_modified_bessel_k1",
    ),
    (V.ERF, V.TRIGONOMETRY, V.RSQRT): (
        "special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1", "special_airy_ai",
    ),
    (V.TRIGONOMETRY, V.INVERSE): ("special_spherical_bessel_j0",),
    (V.ERF, V.LOG): ("special_ndtri", "special_log_ndtr"),
    (V.SQRT, V.ADD): ("hypot",),
    # Gradients: dy * f'(x); f' is cheap where it is written with the result of the forward.
    (V.SCALE, V.ADD): ("tanh_backward", "sigmoid_backward"),
    (V.COMPARE, V.ADD): (
        "threshold_backward", "leaky_relu_backward", "hardtanh_backward", "hardsigmoid_backward", "hardswish_backward",
        "softshrink_backward", "hardshrink_backward", "_prelu_kernel_backward", "prelu_backward",
    ),
    (V.ERF, V.EXP, V.ADD): ("gelu_backward",),
    (V.SIGMOID, V.ADD, V.ADD): ("silu_backward", "softplus_backward", "log_sigmoid_backward", "glu_backward", "logit_backward"),
    (V.TANH, V.SIGMOID, V.ADD): ("mish_backward",),
    (V.EXP, V.ADD): ("elu_backward",),
}  # fmt: skip

_BY_NAME: Dict[str, Tuple[V, ...]] = {name: kinds for kinds, names in KINDS.items() for name in names}


def pointwise(node: Node, kinds: Tuple[V, ...], family: str = _FAMILY) -> Work:
    """``kinds`` of arithmetic on each element of the largest tensor that the op returns, on both parts of complex ones; one superstep."""
    results, inputs = results_of(node), inputs_of(node)
    elements = float(max((t.numel() * (2 if t.is_complex() else 1) for t in results), default=0))
    bits = max((bits_of(t) for t in results if t.is_floating_point()), default=32)
    if not any(t.is_floating_point() for t in results):  # comparisons return bool: the width is that of what is compared
        bits = max((bits_of(t) for t in inputs if t.numel() > 1), default=32)
    read, written = traffic(node)
    return Work(family, (), tuple((kind, elements) for kind in kinds), bits, read, written, n_supersteps=1)


@work_rule(*_BY_NAME, *(f"{name}_" for name in _BY_NAME if not name.endswith(("_backward", "__"))))
def elementwise(node: Node) -> Work:
    """By the table of kinds; a multiplication or addition with a number takes one operand."""
    name = node.target._schema.name.split("::")[-1]  # type: ignore[union-attr]
    kinds = _BY_NAME.get(name) or _BY_NAME[name[:-1]]
    if kinds == (V.ADD,) and sum(t.numel() > 1 for t in inputs_of(node)) < 2:
        kinds = (V.SCALE,)
    if name.rstrip("_") in ("mul", "multiply") and sum(t.is_complex() for t in inputs_of(node)) > 1:
        kinds = (V.ADD,) * 3  # four products and two sums make two parts
    if kinds == (V.DIVIDE,) and (len(node.all_input_nodes) < 2 or node.args[1] not in node.all_input_nodes):
        kinds = (V.SCALE,)  # by a number: a multiplication with its inverse
    if kinds == (V.POWER,) and len(node.args) > 1 and node.args[1] in (2, 2.0):
        kinds = (V.SCALE,)
    return pointwise(node, kinds)
