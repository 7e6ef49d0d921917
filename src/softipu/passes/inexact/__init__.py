"""Passes that may change numerics."""
