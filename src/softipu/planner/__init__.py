"""Searches how to lay a step out on IPUs, and says what to do when a plan does not fit."""
