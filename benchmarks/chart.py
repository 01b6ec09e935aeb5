"""A chart of the main figures: one panel each, one bar per contender, as SVG."""

from __future__ import annotations

from xml.sax.saxutils import escape

from benchmarks.contenders import GATEWAY
from benchmarks.measure import Figure, Figures
from benchmarks.report import number

PANELS = ("stdio.p50", "stdio.c64", "stdio.cpu", "http.session.p50", "http.session.c64", "start.cold", "memory")
LEFT, BAR, GAP, WIDTH = 170, 16, 6, 720
OURS, THEIRS, INK, PALE = "#d9480f", "#868e96", "#343a40", "#ffffff"


def svg(figures: Figures) -> str:
    """The picture; panels whose figures were not taken are left out."""
    parts: list[str] = []
    top = 16
    for key in PANELS:
        figure = figures.all.get(key)
        if figure is not None:
            drawn, height = _panel(figure, top)
            parts += drawn
            top += height
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    style = f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">'
    return "\n".join([f"{head} {style}", f'<rect width="100%" height="100%" fill="{PALE}"/>', *parts, "</svg>", ""])


def _panel(figure: Figure, top: int) -> tuple[list[str], int]:
    better = "more is better" if figure.unit == "calls/s" else "less is better"
    title = escape(f"{figure.title}: {figure.unit}, {better}")
    parts = [f'<text x="12" y="{top + 12}" font-weight="600">{title}</text>']
    largest = max(figure.of(name) for name in figure.rounds)
    line = top + 22
    for name in figure.rounds:
        value = figure.of(name)
        length = max(1.0, value / largest * (WIDTH - LEFT - 90))
        color = OURS if name == GATEWAY.name else THEIRS
        middle = line + BAR - 4
        parts += [
            f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{line}" width="{length:.1f}" height="{BAR}" rx="2" fill="{color}"/>',
            f'<text x="{LEFT + length + 6:.1f}" y="{middle}">{number(value)}</text>',
        ]
        line += BAR + GAP
    return parts, line - top + 14
