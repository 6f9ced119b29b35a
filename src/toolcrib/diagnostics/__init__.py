"""What `toolcrib doctor` looks at, a module for each part of a server.

`report` is what comes out; `runner` goes through one server: its `settings_entry`, its `command` and the `packages`
behind it, or its `connectivity`; its `startup`; its `tools`.
"""
