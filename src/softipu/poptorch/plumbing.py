"""Names that PopTorch's package has for its own use, and that programs may still reach."""

from typing import Any

from softipu.errors import Error
from softipu.poptorch.log import logger
from softipu.poptorch.saved import model_file
from softipu.poptorch.saved.archive import InvalidArchive
from softipu.poptorch.version import VERSION


def importPoptorchMetadataFromFile(filename: str) -> Any:
    """What a file of ``PoplarExecutor.save`` tells of its model, without making the model. Error: no such file, or damaged."""
    try:
        return model_file.read(filename, VERSION, with_model=False)
    except (InvalidArchive, OSError) as error:
        raise Error(f"Invalid file {filename}: {error}.") from error


def registerGeometricCustomArgParsers() -> None:
    """On hardware lets graphs of PyTorch Geometric be inputs. Error: always; the package poptorch_geometric is not part of this one."""
    raise Error(
        "registerGeometricCustomArgParsers needs the package poptorch_geometric, which the software IPU does not have. "
        "Register a parser for your graphs: poptorch.registerCustomArgParser(type, parser)."
    )


def poptorchAtExit() -> None:
    """Nothing: no device has to be let go when the program ends."""
    logger.debug("poptorchAtExit: nothing to do")
