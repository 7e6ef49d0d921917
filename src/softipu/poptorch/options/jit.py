"""Options of the graph capture (``options.Jit``)."""

from softipu.poptorch.log import logger
from softipu.poptorch.options.option_set import OptionSet


class _JitOptions(OptionSet):
    """Readable: trace_model, always False."""

    def __init__(self) -> None:
        super().__init__(trace_model=False)

    def traceModel(self, trace_model: bool) -> "_JitOptions":
        """Deprecated: torch.jit.trace is gone, False is all there is.

        Raises:
            ValueError: True.
        """
        self.checkIsFrozen()
        if trace_model:
            raise ValueError("Jit.traceModel(True): tracing with torch.jit.trace is not supported any more. Leave the call out.")
        logger.warning("Options.Jit.traceModel is deprecated and has no effect: models are captured without torch.jit.trace.")
        return self
