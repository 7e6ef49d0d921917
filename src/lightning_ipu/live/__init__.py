"""Python values in a captured step: numbers that go on changing, reads and writes of attributes."""
