"""Decisions as pure functions: which tools are visible, which arguments are sent, what is retried. No I/O, no clock."""
