"""Endpoints: the ways by which clients reach a request handler."""
