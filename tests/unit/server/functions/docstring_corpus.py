"""Docstrings that are hard to parse, with the expected text of the tool and of each parameter."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    doc: str
    names: list[str]
    text: str
    parameters: dict[str, str]


CASES: dict[str, Case] = {
    # ---- Google ----
    "google": Case(
        """Find things.

        Args:
            query: What to find.
            limit (int, optional): How many.

        Returns:
            list: what was found.
        """,
        ["query", "limit"],
        "Find things.",
        {"query": "What to find.", "limit": "How many."},
    ),
    "google, types with colons and brackets": Case(
        """Do.

        Args:
            a (dict[str, Literal["x: y"]]): The a.
            b (Callable[[int], tuple(int, str)]): The b: with a colon.
        """,
        ["a", "b"],
        "Do.",
        {"a": "The a.", "b": "The b: with a colon."},
    ),
    "google, lines and paragraphs": Case(
        """Do.

        Args:
            a: First line
                goes on here.

                And a second paragraph.
            b: Text.
        """,
        ["a", "b"],
        "Do.",
        {"a": "First line goes on here. And a second paragraph.", "b": "Text."},
    ),
    "google, a nested list with names of parameters": Case(
        """Do.

        Args:
            options: A dict with
                limit: at most so many
                - query: a text
            limit: The limit.
        """,
        ["options", "limit", "query"],
        "Do.",
        {"options": "A dict with limit: at most so many - query: a text", "limit": "The limit."},
    ),
    "google, starred": Case(
        "Do.\n\nArgs:\n    *args: Rest.\n    **options: Named.\n    \\*\\*more: Escaped.",
        ["args", "options", "more"],
        "Do.",
        {"args": "Rest.", "options": "Named.", "more": "Escaped."},
    ),
    "google, no blank lines": Case(
        "Do.\nArgs:\n    a: The a.\nReturns:\n    The b.\nAnd more.", ["a"], "Do.\nAnd more.", {"a": "The a."}
    ),
    "google, tabs": Case("Do.\n\n\tArgs:\n\t\ta: The a\n\t\t\tgoes on.\n", ["a"], "Do.", {"a": "The a goes on."}),
    "google, an example in the text": Case(
        """Do.

        Example::

            Args:
                a: not the a

        Args:
            a: The a.
        """,
        ["a"],
        "Do.\n\nExample::\n\n    Args:\n        a: not the a",
        {"a": "The a."},
    ),
    "google, a fenced example": Case(
        """Do.

        ```
        Args:
            a: not the a
        :param a: neither
        ```

        Args:
            a: The a.
        """,
        ["a"],
        "Do.\n\n```\nArgs:\n    a: not the a\n:param a: neither\n```",
        {"a": "The a."},
    ),
    # ---- NumPy ----
    "numpy": Case(
        """Find things.

        Parameters
        ----------
        query : str
            What to find.
        limit : int, optional
            How many.

        Returns
        -------
        list of str
            What was found.

        Raises
        ------
        ValueError
            If nothing is there.
        """,
        ["query", "limit"],
        "Find things.",
        {"query": "What to find.", "limit": "How many."},
    ),
    "numpy, several names and types with colons": Case(
        """Do.

        Parameters
        ----------
        a, b : dict[str, Literal["x: y"]], default: {}
            Both of them.
        c: int
            Without a space.
        d
            Without a type.
        """,
        ["a", "b", "c", "d"],
        "Do.",
        {"a": "Both of them.", "b": "Both of them.", "c": "Without a space.", "d": "Without a type."},
    ),
    "numpy, lines, paragraphs and lists": Case(
        """Do.

        Parameters
        ----------
        a : int
            First line
            goes on.

            * b : a list entry
            * another one

        b : int
            Text.
        """,
        ["a", "b"],
        "Do.",
        {"a": "First line goes on. * b : a list entry * another one", "b": "Text."},
    ),
    "numpy, starred and other parameters": Case(
        """Do.

        Parameters
        ----------
        *args
            Rest.
        **options : dict
            Named.

        Other Parameters
        ----------------
        rare : int
            Seldom used.
        """,
        ["args", "options", "rare"],
        "Do.",
        {"args": "Rest.", "options": "Named.", "rare": "Seldom used."},
    ),
    "numpy, sections that stay": Case(
        """Do.

        It does it well.

        Parameters
        ----------
        a : int
            The a.

        Yields
        ------
        int
            A number.

        Notes
        -----
        Some notes.

        Examples
        --------
        >>> do(1)
        """,
        ["a"],
        "Do.\n\nIt does it well.\n\nNotes\n-----\nSome notes.\n\nExamples\n--------\n>>> do(1)",
        {"a": "The a."},
    ),
    "numpy, no blank lines": Case(
        "Do.\nParameters\n----------\na : int\n    The a.\nReturns\n-------\nint\n    The b.",
        ["a"],
        "Do.",
        {"a": "The a."},
    ),
    "numpy, text after the section": Case(
        "Do.\n\nParameters\n----------\na : int\n    The a.\n\nAnd more, it says.",
        ["a"],
        "Do.\n\nAnd more, it says.",
        {"a": "The a."},
    ),
    "numpy, tabs": Case("Do.\n\n\tParameters\n\t----------\n\ta : int\n\t\tThe a.\n", ["a"], "Do.", {"a": "The a."}),
    # ---- Sphinx ----
    "sphinx": Case(
        """Find things.

        :param query: What to find.
        :type query: str
        :param int limit: How many.
        :returns: What was found.
        :rtype: list[str]
        :raises ValueError: If nothing is there.
        """,
        ["query", "limit"],
        "Find things.",
        {"query": "What to find.", "limit": "How many."},
    ),
    "sphinx, types with colons": Case(
        """Do.

        :param dict[str, Literal["x:y"]] a: The a: with a colon.
        :param b: See http://example.com/x: it is there.
        """,
        ["a", "b"],
        "Do.",
        {"a": "The a: with a colon.", "b": "See http://example.com/x: it is there."},
    ),
    "sphinx, lines, paragraphs and lists": Case(
        """Do.

        :param a: First line
            goes on.

            - b: a list entry
            - another
        :param b:
            Below.

        Text after.
        """,
        ["a", "b"],
        "Do.\n\nText after.",
        {"a": "First line goes on. - b: a list entry - another", "b": "Below."},
    ),
    "sphinx, lines that are not indented": Case(
        "Do.\n\n:param a: First line\ngoes on.\n:param b: Text.\n\nMore.",
        ["a", "b"],
        "Do.\n\nMore.",
        {"a": "First line goes on.", "b": "Text."},
    ),
    "sphinx, starred and other words": Case(
        "Do.\n\n:param \\*args: Rest.\n:keyword bool b: Named.\n:arg c: Third.\n:key d: Fourth.",
        ["args", "b", "c", "d"],
        "Do.",
        {"args": "Rest.", "b": "Named.", "c": "Third.", "d": "Fourth."},
    ),
    "sphinx, no blank lines": Case("Do.\n:param a: The a.\n:return: The b.", ["a"], "Do.", {"a": "The a."}),
    "sphinx, fields and roles in prose": Case(
        """Write ``:param x:`` for each.

        A line with :param a: in the middle stays.
        :class:`Foo` starts a line: it stays too.
        :note: so does this.

        :param a: A :class:`Bar`: really.
        """,
        ["a", "x"],
        "Write ``:param x:`` for each.\n\nA line with :param a: in the middle stays.\n"
        ":class:`Foo` starts a line: it stays too.\n:note: so does this.",
        {"a": "A :class:`Bar`: really."},
    ),
    "sphinx, an example": Case(
        "Do.\n\n.. code-block:: python\n\n    :param a: not the a\n\n:param a: The a.",
        ["a"],
        "Do.\n\n.. code-block:: python\n\n    :param a: not the a",
        {"a": "The a."},
    ),
    # ---- mixed ----
    "google and sphinx": Case(
        "Do.\n\nArgs:\n    a: The a.\n\n:param b: The b.\n:returns: c",
        ["a", "b"],
        "Do.",
        {"a": "The a.", "b": "The b."},
    ),
    "numpy and sphinx": Case(
        "Do.\n\nParameters\n----------\na : int\n    The a.\n\n:param b: The b.\n\nReturns\n-------\nint",
        ["a", "b"],
        "Do.",
        {"a": "The a.", "b": "The b."},
    ),
    "numpy and google": Case(
        "Do.\n\nParameters\n----------\na : int\n    The a.\n\nReturns:\n    int: c", ["a"], "Do.", {"a": "The a."}
    ),
    # ---- no sections ----
    "words that look like a section": Case(
        "Parameters are nice.\n\nReturns: a text\n\nSee :param: or Args: there.\n\n---\nParameters\n\nEnd.",
        ["a"],
        "Parameters are nice.\n\nReturns: a text\n\nSee :param: or Args: there.\n\n---\nParameters\n\nEnd.",
        {},
    ),
    "a title with dashes": Case("Do.\n\nUsage\n-----\nCall it.", ["a"], "Do.\n\nUsage\n-----\nCall it.", {}),
    "unknown parameters": Case(
        "Do.\n\n:param gone: Old.\n\nParameters\n----------\nolder : int\n    Older.", ["a"], "Do.", {}
    ),
}
