"""The components of a tool server: tools, resources and templates, prompts, completion."""
