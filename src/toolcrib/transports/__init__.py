"""Ways to a server: each is a `Channel`, and a `Channel` is all that the rooms above see."""
