"""The debug log's lines on where a model's operations run."""

import logging
from typing import Mapping

from torch.fx import Node

from softipu.graph.origin import origin_of
from softipu.poptorch.blocks.placement import Placement
from softipu.poptorch.blocks.scope import BlockId
from softipu.poptorch.blocks.strategies import ExecutionStrategy
from softipu.poptorch.log import logger


def log_placement(placement: Placement, names: Mapping[str, Node], strategy: ExecutionStrategy) -> None:
    """Says whether there is a pipeline, and for every result of the forward pass its IPU and its stage.

    Args:
        placement: of the model's blocks.
        names: of its tensors, as ``getTensorNames`` has them.
        strategy: that placed them.
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return
    logger.debug("enablePipelining set to value %d", placement.is_pipelined)
    mode = type(strategy).__name__.replace("Execution", "")
    for name, node in names.items():
        origin = origin_of(node)
        if node.op != "call_function" or origin.backward:
            continue
        place = placement.places.get(origin.block if isinstance(origin.block, BlockId) else None)
        if place is not None:
            phase = f", phase({place.phase})" if place.phase >= 0 else ""
            logger.debug("%s  mode(%s), ipu(%d), stage(%d)%s", name, mode, place.ipu, place.stage, phase)
