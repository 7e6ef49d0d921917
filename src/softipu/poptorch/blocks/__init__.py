"""Blocks of a model, execution strategies, and where they put it: stages and IPUs."""
