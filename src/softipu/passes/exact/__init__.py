"""Passes that keep every bit of a step's results."""
