"""Host batches for the device: the DataLoader and what loads beside it."""
