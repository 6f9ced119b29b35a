"""Draws the diagrams of docs/pictures: boxes, labels and arrows in one style."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

INK = "#12263a"
LINE = "#2f6db3"
FILL = "#eaf2fb"
GREY_INK = "#6b7683"
GREY_LINE = "#9aa5b1"
GREY_FILL = "#fafafa"

ARROW_HEADS = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" '
    f'orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>'
)


@dataclass(frozen=True)
class Box:
    """A rectangle with a bold name and an optional summary below it; grey and dashed if `planned`."""

    name: str
    left: float
    top: float
    width: float
    height: float
    summary: str = ""
    planned: bool = False

    def draw(self) -> list[str]:
        """Return the SVG elements of the box."""
        fill, line, ink = (GREY_FILL, GREY_LINE, GREY_INK) if self.planned else (FILL, LINE, INK)
        dashes = ' stroke-dasharray="5 4"' if self.planned else ""
        place = f'x="{self.left:.1f}" y="{self.top}" width="{self.width:.1f}" height="{self.height}" rx="6"'
        label = f'x="{self.left + self.width / 2:.1f}" text-anchor="middle" fill="{ink}"'
        middle = self.top + self.height // 2
        name_line = middle - 3 if self.summary else middle + 5
        parts = [
            f'<rect {place} fill="{fill}" stroke="{line}"{dashes}/>',
            f'<text {label} y="{name_line}" font-size="15" font-weight="600">{escape(self.name)}</text>',
        ]
        if self.summary:
            parts.append(f'<text {label} y="{middle + 14}" font-size="12">{escape(self.summary)}</text>')
        return parts


def label(lines: Iterable[str], x: float, y: float, anchor: str = "start", *, bold: bool = False) -> list[str]:
    """Return lines of small text, the first one with its baseline at `y`."""
    weight = ' font-weight="600"' if bold else ""
    style = f'text-anchor="{anchor}" fill="{INK}" font-size="12"{weight}'
    return [f'<text x="{x}" y="{y + 15 * number}" {style}>{escape(line)}</text>' for number, line in enumerate(lines)]


def arrow(path: str, *, both_ends: bool = False, title: str = "") -> str:
    """Return an arrow along an SVG path; `title` is shown as a tooltip."""
    start = ' marker-start="url(#head)"' if both_ends else ""
    style = f'fill="none" stroke="{LINE}" stroke-width="1.5"{start} marker-end="url(#head)"'
    if not title:
        return f"<path d={quoteattr(path)} {style}/>"
    return f"<path d={quoteattr(path)} {style}><title>{escape(title)}</title></path>"


def document(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """Return the whole picture as SVG on a white background."""
    view = f'viewBox="0 0 {width} {height}" role="img" font-family="system-ui, sans-serif"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])
