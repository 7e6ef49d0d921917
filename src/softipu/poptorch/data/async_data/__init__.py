"""Loading data in another process: a worker fills a ring of shared-memory buffers that the program reads.

- accessor.py: AsynchronousDataAccessor, what the program sees
- worker_process.py: starts, watches and stops the worker
- worker.py: what the worker does
- rebatching.py: items of any length become batches of one length
- ring_buffer.py: the shared memory
- item_structure.py: an item's tensors and how they hang together
- failure.py: an exception on its way from the worker to the program
- generator_pickling.py: a DataLoader's random generator on its way to the worker
"""

from softipu.poptorch.data.async_data.accessor import AsynchronousDataAccessor

__all__ = ["AsynchronousDataAccessor"]
