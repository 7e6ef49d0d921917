"""Options of runs with several processes (``options.Distributed``)."""

import os

from softipu.poptorch.options.option_set import OptionSet


class _DistributedOptions(OptionSet):
    """Readable: processId and numProcesses (stored as distributed_process_id and num_distributed_processes).

    Starts from OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE.
    """

    def __init__(self) -> None:
        super().__init__(num_distributed_processes=1, distributed_process_id=0)
        self.setEnvVarNames("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")

    def disable(self) -> "_DistributedOptions":
        """Back to one process, whatever the environment says."""
        return self.configureProcessId(0, 1)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> "_DistributedOptions":
        """Read number and id of the processes from two environment variables (1 and 0 where they are not set).

        Raises:
            ValueError: a variable holds no integer.
        """
        return self.configureProcessId(int(os.environ.get(var_process_id, "0")), int(os.environ.get(var_num_processes, "1")))

    def configureProcessId(self, process_id: int, num_processes: int) -> "_DistributedOptions":
        """Which of how many processes this one is; the DataLoader takes its part of the dataset accordingly.

        Raises:
            AssertionError: no ints.
        """
        self.set(distributed_process_id=process_id, num_distributed_processes=num_processes)
        return self

    @property
    def processId(self) -> int:
        """Id of this process, from 0."""
        return self.distributed_process_id

    @property
    def numProcesses(self) -> int:
        """Number of processes."""
        return self.num_distributed_processes
