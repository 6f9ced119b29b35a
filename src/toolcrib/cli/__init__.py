"""The command line: one module per command in `commands`, and what they share.

`app` runs a command line; `command_table` declares the commands, and `lazy_command` imports the one that runs; `target`
chooses the servers that it works on; all output goes through `console`; `exit_codes` maps errors to exit codes and
hints.
"""
