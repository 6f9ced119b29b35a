"""Markers that choose over which transports and protocol eras an interaction test runs.

In the tiers `quick` and `all` a test runs where its behaviour can differ, in the tier `nightly` wherever it exists:

| marker | runs over |
| --- | --- |
| none | memory in every era, and modern HTTP |
| `@pytest.mark.transport` | every kind of transport: for progress, cancellation, notifications, lost connections |
| `@per_protocol` | memory, a modern and a legacy connection: for logic that no transport can influence |
| `@client_side` | memory, a modern connection: for logic that not even the protocol can influence |
| `@everywhere` | all ways and eras, in every tier |

`@only(...)` is for behaviour that only some of them have, in every tier. It can be combined with the markers above.
The marker nearest to the test applies: a function's marker overrides its module's.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.interaction.kit import ERAS, WAYS, fan


def only(
    ways: Iterable[str] = WAYS, eras: Iterable[str] = ERAS, *, but: Iterable[tuple[str, str]] = ()
) -> pytest.MarkDecorator:
    """Restrict a test to the ways or eras that have the behaviour."""
    return pytest.mark.only([place for place in fan(ways, eras) if place not in {*but}])


everywhere = pytest.mark.fan(fan())
per_protocol = pytest.mark.fan(fan(["memory"], ["modern", "legacy"]))
client_side = pytest.mark.fan(fan(["memory"], ["modern"]))

MODERN = only(eras=["modern"])
OLDER = only(eras=["older", "legacy"])
MODERN_WEB = fan(["http", "plain"], ["modern"])
CONNECTED = only(but=[*MODERN_WEB, *fan(["plain"], ["older", "legacy"])])
"""Where a connection lasts between calls and ends with the server. Elsewhere an idle client does not see it die."""
