"""Whether a step fits, how fast it is, how to split it: before training, and applied to a run."""
