"""A Python function as something that takes JSON arguments."""
