"""The corpus of schemas of real servers, and the oracles that judge the compiled schemas."""
