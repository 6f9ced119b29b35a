"""The tools provider: registers sources of tools, keeps an inventory of them, reviews changes, and executes calls."""
