"""The path of a call over stdio, drawn from the call paths of ARCHITECTURE.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from . import svg

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/pictures/call-path.svg"

WIDTH = 1000
LEFT, RIGHT = 16, 640
BOX_WIDTH, BOX_HEIGHT = 344, 48
ROW = 78
TOP = 52


@dataclass(frozen=True)
class Frame:
    """A method on the path of a call, with the module that defines it."""

    name: str
    module: str
    note: str = ""


CALLBACKS = (
    Frame("StreamChannel.on_message", "transports/jsonrpc_stream.py", "finds the request by its id"),
    Frame("StdioLink._read", "transports/stdio/link.py", "splits lines, decodes JSON"),
)
"""The way back, the last step first: callbacks of the event loop, which ARCHITECTURE.md describes in a sentence."""


def frames(heading: str = "### stdio") -> list[Frame]:
    """Return the frames of the call path below a heading, the caller first."""
    section = (ROOT / "ARCHITECTURE.md").read_text().partition(heading)[2].partition("\n### ")[0]
    found = re.findall(r"^ *(\w+\.\w+) +(\w[\w/]*\.py)(?: +(.+))?$", section.partition("```")[2], re.MULTILINE)
    return [Frame(*each) for each in found]


def _box(frame: Frame, left: float, top: float) -> list[str]:
    return svg.Box(frame.name, left, top, BOX_WIDTH, BOX_HEIGHT, frame.module).draw()


def picture() -> str:
    """Return the picture as SVG."""
    path = frames()
    centre, back = LEFT + BOX_WIDTH // 2, RIGHT + BOX_WIDTH // 2
    tops = [TOP + ROW * number for number in range(len(path))]
    queue, process = tops[-1], tops[-1] + 130
    border = (queue + BOX_HEIGHT + process) // 2
    parts = [
        svg.ARROW_HEADS,
        *svg.label(("The caller's task",), centre, 34, "middle", bold=True),
        *svg.label(("Callbacks of the event loop",), back, tops[-3] - 18, "middle", bold=True),
    ]
    for number, (frame, top) in enumerate(zip(path, tops, strict=True)):
        parts += _box(frame, LEFT, top)
        if number:
            parts.append(svg.arrow(f"M{centre},{tops[number - 1] + BOX_HEIGHT} V{top - 2}"))
        note = frame.note.removeprefix("(not a coroutine) ")
        if note:
            parts += svg.label((note,), centre + 12, top - 10)
    for frame, top in zip(CALLBACKS, (tops[-3], tops[-1]), strict=True):
        parts += _box(frame, RIGHT, top)
    # The way back, from the process up to the pending request of the caller.
    parts += [
        svg.arrow(f"M{back},{process} V{queue + BOX_HEIGHT + 2}"),
        svg.arrow(f"M{back},{tops[-1]} V{tops[-3] + BOX_HEIGHT + 2}"),
        svg.arrow(f"M{RIGHT},{tops[-3] + 24} H{RIGHT - 130} V{tops[-2] + 24} H{LEFT + BOX_WIDTH + 2}"),
        *svg.label((CALLBACKS[1].note,), back + 12, tops[-1] + BOX_HEIGHT + 20),
        *svg.label((CALLBACKS[0].note,), back + 12, tops[-3] + BOX_HEIGHT + 20),
        *svg.label(("resolves the future", "of the request"), RIGHT - 122, tops[-2] + 4),
    ]
    # The write queue, and the point from which a call counts as sent.
    dashes = f'stroke="{svg.GREY_LINE}" stroke-dasharray="5 4"'
    parts += [
        svg.arrow(f"M{centre},{queue + BOX_HEIGHT} V{process - 2}"),
        f'<path d="M{LEFT},{border} H{WIDTH - 16}" {dashes}/>',
        *svg.label(("sent=False: the call is still in the queue and can be withdrawn",), centre + 12, border - 12),
        *svg.label(("sent=True: the pipe has accepted the first byte",), centre + 12, border + 22),
        *svg.Box("The server's process", LEFT, process, WIDTH - 32, BOX_HEIGHT, "stdin and stdout").draw(),
    ]
    return svg.document("The path of a call over stdio", WIDTH, process + BOX_HEIGHT + 16, parts)
