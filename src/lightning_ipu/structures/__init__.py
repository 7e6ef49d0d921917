"""Nested structures of tensors, numbers and other objects: batches, and what steps return."""
