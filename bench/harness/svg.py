"""What the pictures have in common: a card. Its own ground makes it read the same on a white page and on a dark one."""

from __future__ import annotations

from xml.sax.saxutils import escape

GROUND, EDGE, INK, QUIET, OURS, PEER = "#ffffff", "#d0d7de", "#1f2328", "#59636e", "#1a7f5a", "#9aa4b2"


def card(width: int, height: int, label: str, lines: list[str]) -> str:
    """A whole picture; `label` is for those who do not see it."""
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(label)}" font-family="system-ui, -apple-system, Segoe UI, '
        f'Helvetica, Arial, sans-serif" font-size="14">',
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10" fill="{GROUND}" stroke="{EDGE}"/>',
    ]
    return "\n".join([*head, *lines, "</svg>", ""])


def text(x: float, y: float, words: str, fill: str, anchor: str = "start", weight: int = 400) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
    )
