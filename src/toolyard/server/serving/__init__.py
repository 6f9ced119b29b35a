"""Endpoints: the ways by which clients reach an answerer."""
