"""The client for one server: a supervised connection and typed methods."""
