"""Work: what an op does, whatever the machine."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Tuple


class VectorOp(Enum):
    """Kinds of arithmetic outside the matrix unit; a machine says what each costs."""

    ADD = "add"  # add, subtract, multiply of two tensors
    SCALE = "scale"  # one tensor and a number, negation, square
    COMPARE = "compare"  # maximum, comparison, select by a mask, logic
    DIVIDE = "divide"
    INVERSE = "inverse"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    EXP = "exp"
    LOG = "log"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    RELU = "relu"
    ERF = "erf"  # erf and what is made of it
    TRIGONOMETRY = "trigonometry"
    POWER = "power"
    REDUCE = "reduce"  # one element into a running sum, maximum or the like
    COPY = "copy"  # memory to memory, casts included
    RANDOM = "random"


@dataclass(frozen=True)
class Contraction:
    """``groups`` independent products out[rows, columns] = sum over taps of in[rows, inner] @ weight[inner, columns].

    Attributes:
        groups: products that share nothing.
        rows: output positions: rows of a matrix; batch x height x width of a convolution.
        inner: summed channels.
        columns: output channels.
        taps: kernel positions of a convolution, each a product of its own; 1 for matmul.
        in_positions: input positions, which differ from ``rows`` in a strided or padded convolution.
        bits: of the inputs.
    """

    groups: int
    rows: int
    inner: int
    columns: int
    taps: int = 1
    in_positions: int = 0
    bits: int = 16

    @property
    def macs(self) -> float:
        """Multiply-accumulates."""
        return float(self.groups) * self.rows * self.inner * self.columns * self.taps

    @property
    def flops(self) -> float:
        """A multiply-accumulate counted as two."""
        return 2.0 * self.macs


@dataclass(frozen=True)
class Work:
    """What one op does.

    Attributes:
        family: op family, the name of the file of its rule.
        contractions: products for the matrix unit.
        vector: (kind, elements) of arithmetic outside it.
        vector_bits: type of that arithmetic.
        bytes_read, bytes_written: of the op's tensors, each counted once.
        moved_bytes: bytes that must change tiles since elements change places: gathers, transposes that are written out.
        n_supersteps: rounds of compute and exchange that depend on one another, contractions not counted.
    """

    family: str
    contractions: Tuple[Contraction, ...] = ()
    vector: Tuple[Tuple[VectorOp, float], ...] = ()
    vector_bits: int = 32
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    moved_bytes: float = 0.0
    n_supersteps: int = 0
    flops: float = field(init=False)

    def __post_init__(self) -> None:
        arithmetic = sum(n for kind, n in self.vector if kind not in (VectorOp.COPY, VectorOp.RANDOM))
        object.__setattr__(self, "flops", sum(c.flops for c in self.contractions) + arithmetic)

    @property
    def is_free(self) -> bool:
        """Whether the op does nothing on the device, as a view does."""
        return not (self.contractions or self.vector or self.moved_bytes or self.n_supersteps)
