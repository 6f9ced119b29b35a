"""The data path of a provider, drawn from the call path of `Provider.execute` in ARCHITECTURE.md."""

from __future__ import annotations

from . import svg
from .call_path import ROOT, Frame, frames

PICTURE = ROOT / "docs/pictures/provider.svg"

WIDTH = 1000
LEFT, RIGHT = 16, 620
BOX_WIDTH, BOX_HEIGHT = 344, 48
ROW = 84
TOP = 52

REGISTRY = Frame("SourceRegistry.register", "provider/source_registry.py", "and refresh, approve, update, remove")
SNAPSHOT = Frame("Snapshot.find_source", "provider/snapshot.py", "sources, tools and groups, in memory")
AUDIT = Frame("AuditWriter.record", "provider/store/audit.py")
STORE = Frame("SqlStore.commit", "provider/store/sql_store.py")
CALLEE = Frame("Client.call_tool", "client/client.py", "of the principal's connection")
BESIDE = (REGISTRY, SNAPSHOT, AUDIT, STORE, CALLEE)
"""What is beside the call path, or continues it."""


def picture() -> str:
    """Return the picture as SVG."""
    path = [*frames("### Provider"), CALLEE]
    centre, back = LEFT + BOX_WIDTH // 2, RIGHT + BOX_WIDTH // 2
    tops = [TOP + ROW * number for number in range(len(path))]
    source = tops[-1] + ROW
    parts = [
        svg.ARROW_HEADS,
        *svg.label(("A call",), centre, 34, "middle", bold=True),
        *svg.label(("Changes by operators",), back, 34, "middle", bold=True),
    ]
    for number, (frame, top) in enumerate(zip(path, tops, strict=True)):
        parts += _box(frame, LEFT, top)
        if number:
            parts.append(svg.arrow(f"M{centre},{tops[number - 1] + BOX_HEIGHT} V{top - 2}"))
            parts += svg.label((frame.note,), centre + 12, top - 13)
    parts += [
        svg.arrow(f"M{centre},{tops[-1] + BOX_HEIGHT} V{source - 2}"),
        *svg.Box("The source", LEFT, source, BOX_WIDTH, BOX_HEIGHT, "a process of this principal, or a URL").draw(),
    ]
    found, recorded, stored = tops[1], tops[2], tops[4]
    for frame, top in ((REGISTRY, tops[0]), (SNAPSHOT, found), (AUDIT, recorded), (STORE, stored)):
        parts += _box(frame, RIGHT, top)
    gap, edge = LEFT + BOX_WIDTH, RIGHT + BOX_WIDTH
    parts += [
        svg.arrow(f"M{back},{tops[0] + BOX_HEIGHT} V{found - 2}"),
        *svg.label(("replaced by one assignment, after the commit",), back - 12, found - 13, "end"),
        svg.arrow(f"M{RIGHT},{found + 24} H{gap + 2}"),
        *svg.label(("no database on this path",), gap + 12, found + 18),
        svg.arrow(f"M{gap},{recorded + 24} H{RIGHT - 2}"),
        *svg.label(("a row in memory, after the answer",), gap + 12, recorded + 18),
        svg.arrow(f"M{back},{recorded + BOX_HEIGHT} V{stored - 2}"),
        *svg.label(("in batches: every 0.5 s or 500 rows",), back - 12, (recorded + BOX_HEIGHT + stored) // 2, "end"),
        svg.arrow(f"M{edge},{tops[0] + 24} H{edge + 14} V{stored + 24} H{edge + 2}"),
        *svg.label(("one transaction", "for each change"), edge + 6, stored - 40, "end"),
    ]
    return svg.document("The data path of a provider", WIDTH, source + BOX_HEIGHT + 16, parts)


def _box(frame: Frame, left: float, top: float) -> list[str]:
    return svg.Box(frame.name, left, top, BOX_WIDTH, BOX_HEIGHT, frame.module).draw()
