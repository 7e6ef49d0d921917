"""poptorch.load: a compiled model from a file."""

from typing import Callable, Optional

from softipu.poptorch.executor.executor import PoplarExecutor
from softipu.poptorch.executor.making import inferenceModel, trainingModel
from softipu.poptorch.options import Options
from softipu.poptorch.saved import model_file
from softipu.poptorch.saved.archive import InvalidArchive
from softipu.poptorch.version import VERSION


def load(filename: str, edit_opts_fn: Optional[Callable[[Options], None]] = None) -> PoplarExecutor:
    """The executor of a file that ``PoplarExecutor.save`` or ``compileAndExport`` wrote, ready to run.

    No code of the file is run: it names classes, which the program must have imported, and holds their attributes. An
    offline target is left out of the options.

    Args:
        filename: the file.
        edit_opts_fn: may change the options before they are used.

    Raises:
        AssertionError: no such file, damaged, written by another version of PopTorch, without the model (export_model=False),
            or of classes that the program has not imported.
    """
    try:
        saved = model_file.read(filename, VERSION, with_model=True)
    except (InvalidArchive, OSError) as error:
        raise AssertionError(f"Invalid file {filename}: {error}.") from error
    assert saved.module is not None and saved.options is not None, (
        f"{filename} was written with export_model=False, so it does not hold the model. Make the module and its options yourself, wrap "
        "them by trainingModel or inferenceModel, and call loadExecutable(filename)."
    )
    if edit_opts_fn is not None:
        edit_opts_fn(saved.options)
    if saved.training:
        executor = trainingModel(saved.module, saved.options, saved.optimizer)
        executor._saved_optimizer_state = saved.optimizer_state
    else:
        executor = inferenceModel(saved.module, saved.options)
    args, kwargs = saved.arguments
    executor.compile(*args, **kwargs)
    if saved.rng_state is not None:
        executor.rng_state = saved.rng_state
    return executor
