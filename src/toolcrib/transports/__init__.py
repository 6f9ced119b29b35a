"""Transports to a server. Each implements `Channel`, the only interface that the layers above use."""
