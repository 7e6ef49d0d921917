"""Recurrent cells and layers whose steps PyTorch keeps in one op."""

from typing import Tuple

from torch.fx import Node

from softipu.ops.registry import work_rule
from softipu.ops.tensors import bits_of, result, tensor, traffic
from softipu.ops.work import Contraction, Work
from softipu.ops.work import VectorOp as V

_FAMILY = "recurrent"
_LSTM: Tuple[V, ...] = (V.SIGMOID, V.SIGMOID, V.SIGMOID, V.TANH, V.ADD, V.ADD, V.TANH, V.ADD)
_GRU: Tuple[V, ...] = (V.SIGMOID, V.SIGMOID, V.TANH, V.ADD, V.ADD)


def _cell(node: Node, kinds: Tuple[V, ...], states: float) -> Work:
    out = result(node)
    read, written = traffic(node)
    return Work(_FAMILY, (), tuple((kind, states) for kind in kinds), bits_of(out), read, written, n_supersteps=2)


@work_rule("_thnn_fused_lstm_cell", "_thnn_fused_lstm_cell_backward_impl", "_thnn_differentiable_lstm_cell_backward")
def lstm_cell(node: Node) -> Work:
    """The gates of an LSTM after its products."""
    return _cell(node, _LSTM, float(result(node).numel()))


@work_rule("_thnn_fused_gru_cell", "_thnn_fused_gru_cell_backward", "_thnn_differentiable_gru_cell_backward")
def gru_cell(node: Node) -> Work:
    """The gates of a GRU after its products."""
    return _cell(node, _GRU, float(result(node).numel()))


@work_rule("mkldnn_rnn_layer")
def lstm_layer(node: Node) -> Work:
    """One direction of an LSTM layer: x_TBI with 4 H gates; steps depend on one another, the products of the input do not."""
    return _layer(node, backward=False)


@work_rule("mkldnn_rnn_layer_backward")
def lstm_layer_backward(node: Node) -> Work:
    """By the states and by the weights: twice the products."""
    return _layer(node, backward=True)


def _layer(node: Node, *, backward: bool) -> Work:
    x, w_input, w_state = (tensor(a) for a in node.args[:3])
    assert x is not None and w_input is not None and w_state is not None
    steps, batch, features = x.shape
    gates, hidden = w_state.shape[-2], w_state.shape[-1]
    bits = bits_of(x)
    once = (
        Contraction(1, steps * batch, features, gates, 1, steps * batch, bits),
        *(Contraction(1, batch, hidden, gates, 1, batch, bits) for _ in range(steps)),
    )
    read, written = traffic(node)
    states = float(steps * batch * hidden)
    vector = tuple((kind, states) for kind in _LSTM)
    return Work(_FAMILY, once * (2 if backward else 1), vector, bits, read, written, n_supersteps=2 * steps)
