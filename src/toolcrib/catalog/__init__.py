"""The tools, resources and prompts of many servers as one: routing table, search, token estimates."""
