"""Makes the pages of docs/reference from the code, each module the page of its name; `scripts/docs` writes them.

A page is not edited by hand: what it says is a docstring, a signature or a table of the code, and a test tells when it
is out of date.
"""
