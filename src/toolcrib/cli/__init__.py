"""The command line: one file a command, and beside them what they share.

`app` has the table of commands and loads the one that is wanted; `target` knows which servers it works on; `console` is
the only door to the terminal; `exit_codes` has the exit codes and the words for what went wrong.
"""
