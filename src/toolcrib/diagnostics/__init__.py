"""The checks of `toolcrib doctor`, with one module for each part of a server.

`report` holds the results. `runner` checks one server: its `settings_entry`, its `command` and `packages` or its
`connectivity`, its `startup`, its sign-in (`sign_in_steps`) and its `tools`.
"""
