"""Weight updates: optimizers and their state, hooks around gradients, accumulation, counters."""
