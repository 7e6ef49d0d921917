"""Frozen data of what a step costs, and its text and JSON. Nothing here computes a cost; no torch."""
