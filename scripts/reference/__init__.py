"""Generates docs/reference and the diagrams of docs/pictures from the code; `scripts/docs` runs it.

Each module makes the page or the picture of its name. The generated files are not edited by hand: their text comes from
docstrings, signatures and tables of the code, and a test fails when one of them is out of date.
"""
