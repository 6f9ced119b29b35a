"""The states of a connection and its transitions, drawn from the transition table of the client."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolcrib.client.status import TRANSITIONS
from toolcrib.types import ConnectionState as State

from . import svg

PICTURE = Path(__file__).parents[2] / "docs/pictures/states.svg"

WIDTH, HEIGHT = 1000, 520
BOX_WIDTH, BOX_HEIGHT = 150, 48
CENTRES = {
    State.DISCONNECTED: (91, 250),
    State.DISABLED: (91, 430),
    State.CONNECTING: (420, 250),
    State.FAILED: (420, 80),
    State.CONNECTED: (800, 250),
    State.DEGRADED: (800, 80),
    State.NEEDS_AUTH: (610, 430),
}
SUMMARIES = {
    State.DISCONNECTED: "no connection",
    State.DISABLED: "turned off in settings",
    State.CONNECTING: "start and handshake",
    State.FAILED: "cannot be reached",
    State.CONNECTED: "the server answers",
    State.DEGRADED: "it may be stuck",
    State.NEEDS_AUTH: "credentials missing",
}
IN_USE = (State.CONNECTING, State.FAILED, State.CONNECTED, State.DEGRADED, State.NEEDS_AUTH)
"""The states inside the frame; a client leaves all of them in the same way."""


@dataclass(frozen=True)
class Arrow:
    """An arrow, and the transitions that it shows: one, a pair in both directions, or one from every state in use."""

    transitions: tuple[tuple[State, State], ...]
    path: str
    label: tuple[str, ...]
    x: float
    y: float
    anchor: str = "start"

    def draw(self, allowed: set[tuple[State, State]]) -> list[str]:
        """Return the SVG elements of the arrow and its label; none if the table does not have its transitions."""
        shown = [each for each in self.transitions if each in allowed]
        if not shown:
            return []
        title = ", ".join(f"{start} → {end}" for start, end in shown)
        return [
            svg.arrow(self.path, both_ends=len(shown) == 2, title=title),
            *svg.label(self.label, self.x, self.y, self.anchor),
        ]


def _one(start: State, end: State) -> tuple[tuple[State, State], ...]:
    return ((start, end),)


ARROWS = (
    Arrow(_one(State.DISCONNECTED, State.CONNECTING), "M166,238 H345", ("a call or connect()",), 228, 230, "middle"),
    Arrow(
        tuple((state, State.DISCONNECTED) for state in IN_USE),
        "M290,264 H168",
        ("disconnect()", "or close()"),
        228,
        281,
        "middle",
    ),
    Arrow(
        ((State.DISCONNECTED, State.DISABLED), (State.DISABLED, State.DISCONNECTED)),
        "M91,276 V404",
        ("turned off or on", "in a hub"),
        101,
        337,
    ),
    Arrow(_one(State.CONNECTING, State.CONNECTED), "M495,238 H723", ("handshake completed",), 609, 230, "middle"),
    Arrow(_one(State.CONNECTED, State.CONNECTING), "M725,264 H497", ("connection lost",), 609, 281, "middle"),
    Arrow(
        _one(State.CONNECTING, State.FAILED),
        "M408,226 V106",
        ("no attempts left,", "or the error", "is permanent"),
        400,
        153,
        "end",
    ),
    Arrow(_one(State.FAILED, State.CONNECTING), "M432,104 V224", ("next call,", "or next attempt"), 440, 168),
    Arrow(_one(State.DEGRADED, State.CONNECTING), "M725,92 L492,224", ("ping not", "answered"), 592, 136, "end"),
    Arrow(
        _one(State.CONNECTED, State.DEGRADED),
        "M788,226 V106",
        ("three calls", "unanswered, or", "unreachable (HTTP)"),
        780,
        153,
        "end",
    ),
    Arrow(_one(State.DEGRADED, State.CONNECTED), "M812,104 V224", ("an answer",), 820, 168),
    Arrow(_one(State.CONNECTING, State.NEEDS_AUTH), "M432,274 V420 H533", ("HTTP 401, 403",), 440, 350),
    Arrow(_one(State.NEEDS_AUTH, State.CONNECTING), "M535,442 H408 V276", ("next call",), 400, 350, "end"),
    Arrow(_one(State.CONNECTED, State.NEEDS_AUTH), "M788,274 V420 H687", ("HTTP 401",), 780, 350, "end"),
    Arrow(_one(State.NEEDS_AUTH, State.CONNECTED), "M685,442 H812 V276", ("an answer",), 820, 350),
    Arrow(
        ((State.NEEDS_AUTH, State.DEGRADED), (State.DEGRADED, State.NEEDS_AUTH)),
        "M610,456 V484 H950 V80 H877",
        ("unreachable; HTTP 401",),
        780,
        478,
        "middle",
    ),
)


def check_arrows() -> None:
    """Raise if the transition table has a transition without an arrow."""
    missing = sorted(
        f"{start} -> {end}" for start, end in _allowed() - {each for arrow in ARROWS for each in arrow.transitions}
    )
    if missing:
        raise ValueError(f"{__name__}.ARROWS has no arrow for {', '.join(missing)}")


def _allowed() -> set[tuple[State, State]]:
    return {(start, end) for start, ends in TRANSITIONS.items() for end in ends}


def picture() -> str:
    """Return the picture as SVG."""
    check_arrows()
    frame = f'x="290" y="16" width="{WIDTH - 306}" height="{HEIGHT - 32}" rx="10"'
    parts = [
        svg.ARROW_HEADS,
        f'<rect {frame} fill="none" stroke="{svg.GREY_LINE}" stroke-dasharray="5 4"/>',
        f'<circle cx="91" cy="172" r="6" fill="{svg.LINE}"/>',
        svg.arrow("M91,178 V224"),
        *svg.label(("new client",), 103, 176),
    ]
    for each in ARROWS:
        parts += each.draw(_allowed())
    for state, (x, y) in CENTRES.items():
        left, top = x - BOX_WIDTH / 2, y - BOX_HEIGHT // 2
        parts += svg.Box(state.value, left, top, BOX_WIDTH, BOX_HEIGHT, SUMMARIES[state]).draw()
    return svg.document("The states of a connection and the transitions between them", WIDTH, HEIGHT, parts)
