"""Finds the secrets in a registration and replaces them by placeholders. Pure functions.

A value that is hidden without need only shows less; so in doubt a value is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..config import mask_urls, names_a_secret
from ..config.masking import looks_like_token
from .commands import find_secret_words
from .stored_config import has_placeholder, make_placeholder

_ORDINARY: Final = re.compile(
    r"true|false|yes|no|on|off|none|null|auto|default|trace|debug|info|warning|warn|error|critical|fatal|silent|"
    r"production|development|staging|test|stdio|sse|http|\d{1,5}(\.\d{1,3}){0,3}|",
    re.IGNORECASE,
)
"""Values that are not secrets if the name does not suggest one; the empty one too."""
_SECRET_WORD: Final = re.compile(r"pass|pin|code|otp|salt|seed|sign|key|token|secret|cred|auth", re.IGNORECASE)


def is_secret_value(name: str, value: str) -> bool:
    """Return whether the value of a variable or header is a secret by its name or its form."""
    return names_a_secret(name) or looks_like_token(value) or has_placeholder(value) or mask_urls(value) != value


def is_ordinary_value(name: str, value: str) -> bool:
    """Return whether the value of a variable without a definition is surely not a secret."""
    return _ORDINARY.fullmatch(value) is not None and not _SECRET_WORD.search(name)


def hide_words(command: Sequence[str], values: Sequence[str], secrets: dict[str, str]) -> tuple[str, ...]:
    """Return the command with its secrets replaced: words that look like one, and words that contain one of `values`.

    The secrets are added to `secrets` by their references.
    """
    starts: dict[int, int] = {}
    for position, start in find_secret_words(command):
        starts[position] = min(start, starts.get(position, start))
    for position, word in enumerate(command):
        places = [word.find(value) for value in values if value and value in word]
        if has_placeholder(word):
            places.append(0)
        if places:
            starts[position] = min([*places, starts.get(position, len(word))])
    hidden = []
    for position, word in enumerate(map(str, command)):
        start = starts.get(position, len(word))
        if start < len(word):
            reference = f"command[{position}]"
            secrets[reference] = word[start:]
            hidden.append(word[:start] + make_placeholder(reference))
        else:
            hidden.append(word)
    return tuple(hidden)


def hide_url(url: str, values: Sequence[str], secrets: dict[str, str]) -> str:
    """Return the URL with user info, query values and tokens in the path replaced.

    A URL that contains one of `values` is replaced as a whole.
    """
    text = str(url)
    if has_placeholder(text) or any(value and value in text for value in values):
        secrets["url"] = text
        return make_placeholder("url")
    scheme, _, rest = text.partition("://")
    place, mark, query = rest.partition("?")
    authority, slash, path = place.partition("/")
    user, at, host = authority.rpartition("@")
    if at:
        secrets["url.user"] = user
        host = f"{make_placeholder('url.user')}@{host}"
    words = path.split("/")
    for position, word in enumerate(words):
        if looks_like_token(word):
            secrets[f"url.path[{position}]"] = word
            words[position] = make_placeholder(f"url.path[{position}]")
    pairs = query.split("&") if mark else []
    for position, pair in enumerate(pairs):
        name, equals, value = pair.partition("=")
        # `?dG9rZW4=` is a token with its padding, not a name without a value.
        start = len(name + equals) if value.strip("=") else 0
        if pair:
            secrets[f"url.query[{position}]"] = pair[start:]
            pairs[position] = pair[:start] + make_placeholder(f"url.query[{position}]")
    return f"{scheme}://{host}{slash}{'/'.join(words)}{mark}{'&'.join(pairs)}"


def hide_options(options: Mapping[str, Any], secrets: dict[str, str]) -> dict[str, Any]:
    """Return the server options with a secret in the URL of the proxy replaced."""
    hidden = dict(options)
    proxy = hidden.get("proxy")
    if isinstance(proxy, str) and (mask_urls(proxy) != proxy or has_placeholder(proxy)):
        secrets["options.proxy"] = str(proxy)
        hidden["proxy"] = make_placeholder("options.proxy")
    return hidden
