"""What a tool server offers: tools, resources and templates, prompts, completion."""
