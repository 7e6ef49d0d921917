"""What a call is given: arguments, nested structures, dtypes, and how it may differ between calls."""
