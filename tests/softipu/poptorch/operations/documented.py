"""Every operation that PopTorch's user guide lists as supported (names without ``torch.``), and other ways to call them."""

from tests.softipu.poptorch.operations.activations import ACTIVATION_VARIANTS, ACTIVATIONS
from tests.softipu.poptorch.operations.comparisons import COMPARISONS
from tests.softipu.poptorch.operations.convolutions import CONVOLUTION_VARIANTS, CONVOLUTIONS
from tests.softipu.poptorch.operations.creation import CREATION
from tests.softipu.poptorch.operations.example import Table
from tests.softipu.poptorch.operations.indexing import INDEXING
from tests.softipu.poptorch.operations.layers import LAYER_VARIANTS, LAYERS
from tests.softipu.poptorch.operations.linear_algebra import LINEAR_ALGEBRA, LINEAR_ALGEBRA_VARIANTS
from tests.softipu.poptorch.operations.losses import LOSS_VARIANTS, LOSSES
from tests.softipu.poptorch.operations.normalisation import NORMALISATION, NORMALISATION_VARIANTS
from tests.softipu.poptorch.operations.padding import PADDING, PADDING_VARIANTS
from tests.softipu.poptorch.operations.pointwise import POINTWISE, POINTWISE_VARIANTS
from tests.softipu.poptorch.operations.pooling import POOLING, POOLING_VARIANTS
from tests.softipu.poptorch.operations.random_draws import RANDOM
from tests.softipu.poptorch.operations.reductions import REDUCTIONS
from tests.softipu.poptorch.operations.resampling import RESAMPLING, RESAMPLING_VARIANTS

DOCUMENTED: Table = {
    **CREATION, **INDEXING, **RANDOM, **POINTWISE, **REDUCTIONS, **COMPARISONS, **LINEAR_ALGEBRA, **CONVOLUTIONS, **POOLING, **PADDING,
    **RESAMPLING, **ACTIVATIONS, **NORMALISATION, **LAYERS, **LOSSES,
}  # fmt: skip
VARIANTS: Table = {
    **POINTWISE_VARIANTS, **LINEAR_ALGEBRA_VARIANTS, **CONVOLUTION_VARIANTS, **POOLING_VARIANTS, **PADDING_VARIANTS, **RESAMPLING_VARIANTS,
    **ACTIVATION_VARIANTS, **NORMALISATION_VARIANTS, **LAYER_VARIANTS, **LOSS_VARIANTS,
}  # fmt: skip

# Packages of their own, which the software IPU does not have.
ELSEWHERE = (
    "torch_scatter.scatter",
    "torch_scatter.composite.scatter_log_softmax",
    "torch_scatter.composite.scatter_softmax",
    "torch_scatter.composite.scatter_std",
    "torch_scatter.composite.scatter_logsumexp",
    "torch_spline_conv.spline_basis",
    "torch_spline_conv.spline_weighting",
)
