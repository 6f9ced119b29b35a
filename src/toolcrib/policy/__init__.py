"""Decisions as pure functions of values: who sees a tool, what is sent, what may be sent again. No I/O and no clock."""
