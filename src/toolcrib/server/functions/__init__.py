"""Python functions that are called with JSON arguments."""
