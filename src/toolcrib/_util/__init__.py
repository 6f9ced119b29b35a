"""Small mechanisms that several packages share. Imports nothing of this project but `errors`."""
