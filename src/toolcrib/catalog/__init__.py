"""The combined tools, resources and prompts of many servers: routing table, search, token estimates."""
