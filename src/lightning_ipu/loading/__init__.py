"""Host batches: from the user's loaders to calls of the device, and where training is within its epochs."""
