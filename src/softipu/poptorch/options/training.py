"""Options of training (``options.Training``)."""

from softipu.poptorch.enums import MeanReductionStrategy, ReductionType
from softipu.poptorch.options.option_set import OptionSet
from softipu.poptorch.options.popart import _PopartOptions


class _TrainingOptions(OptionSet):
    """Readable: gradient_accumulation, accumulation_and_replication_reduction_type and
    meanAccumulationAndReplicationReductionStrategy."""

    def __init__(self, popart_options: _PopartOptions) -> None:
        self._popart_options = popart_options
        super().__init__(
            gradient_accumulation=1,
            accumulation_and_replication_reduction_type=ReductionType.Mean,
            meanAccumulationAndReplicationReductionStrategy=MeanReductionStrategy.Post,
        )

    def gradientAccumulation(self, gradient_accumulation: int) -> "_TrainingOptions":
        """Micro-batches of one replica for each weight update.

        Raises:
            AssertionError: not a positive int.
        """
        assert not isinstance(gradient_accumulation, int) or gradient_accumulation >= 1, (
            f"gradientAccumulation must be at least 1, given {gradient_accumulation}"
        )
        self.set(gradient_accumulation=gradient_accumulation)
        return self

    def accumulationAndReplicationReductionType(self, reduction_type: ReductionType) -> "_TrainingOptions":
        """Mean (default) or Sum of the gradients over micro-batches and replicas.

        Raises:
            ValueError: NoReduction, or no ReductionType.
        """
        if not isinstance(reduction_type, ReductionType) or reduction_type == ReductionType.NoReduction:
            raise ValueError(
                "accumulationAndReplicationReductionType must be set to poptorch.ReductionType.Mean or "
                f"poptorch.ReductionType.Sum, given {reduction_type!r}"
            )
        self.set(accumulation_and_replication_reduction_type=reduction_type)
        return self

    def setMeanAccumulationAndReplicationReductionStrategy(self, mean_reduction_strategy: MeanReductionStrategy) -> "_TrainingOptions":
        """When a mean reduction divides: Post (default), Running or PostAndLoss. The result differs by rounding only.

        Raises:
            AssertionError: no MeanReductionStrategy.
        """
        self.set(meanAccumulationAndReplicationReductionStrategy=mean_reduction_strategy)
        return self

    def setAutomaticLossScaling(self, enabled: bool) -> "_TrainingOptions":
        """Let the device adjust the loss scale to the size of the float16 gradients."""
        self.checkIsFrozen()
        self._popart_options.set("automaticLossScalingSettings.enabled", enabled)
        return self

    def setConvolutionDithering(self, enabled: bool) -> "_TrainingOptions":
        """Start the tile layouts of different convolutions at different tiles."""
        self.checkIsFrozen()
        self._popart_options._merge("convolutionOptions", enableConvDithering=enabled)
        return self
