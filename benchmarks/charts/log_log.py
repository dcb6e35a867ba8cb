"""A chart with two logarithmic axes as SVG text: lines with dots, each named at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 80, 150, 50, 60
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Told apart by those who do not see all colours alike (Okabe and Ito)."""

LABEL_HEIGHT = 15
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """`lines`: points above 0 in order of x, by name; there is at least one."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Points]


@dataclass(frozen=True)
class Axis:
    """Whole decades around the values, from `low` to `high` (exponents of 10), over pixels."""

    low: int
    high: int
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def decades(self) -> Sequence[int]:
        return range(self.low, self.high + 1)


def axis(values: Sequence[float], start: float, end: float) -> Axis:
    """The smallest number of decades that holds all values, at least one."""
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)))
    return Axis(low, max(high, low + 1), start, end)


def svg(chart: Chart) -> str:
    """The whole document."""
    points = [point for line in chart.lines.values() for point in line]
    x = axis([point[0] for point in points], LEFT, WIDTH - RIGHT)
    y = axis([point[1] for point in points], HEIGHT - BOTTOM, TOP)
    middle_x, middle_y = (x.start + x.end) / 2, (y.start + y.end) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="13" fill="#222">',
        f"<title>{escape(chart.title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(middle_x, 26, chart.title, 'text-anchor="middle" font-size="16"'),
        *_grid(x, y),
        _text(middle_x, HEIGHT - 14, chart.x_label, 'text-anchor="middle"'),
        _text(20, middle_y, chart.y_label, f'text-anchor="middle" transform="rotate(-90 20 {middle_y})"'),
    ]
    names = _label_heights({name: y.at(line[-1][1]) for name, line in chart.lines.items()})
    for number, (name, line) in enumerate(chart.lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [(x.at(a), y.at(b)) for a, b in line]
        path = " ".join(f"{a},{b}" for a, b in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a}" cy="{b}" r="3.5" fill="{colour}"/>' for a, b in places]
        parts.append(_text(x.end + 12, names[name] + 4, name, f'fill="{colour}"'))
    return "\n".join([*parts, "</svg>", ""])


def _grid(x: Axis, y: Axis) -> list[str]:
    parts = []
    for decade in x.decades:
        at = x.at(10.0**decade)
        parts.append(f'<path d="M{at} {y.end}V{y.start}" stroke="#ddd"/>')
        parts.append(_text(at, y.start + 20, number_text(decade), 'text-anchor="middle"'))
    for decade in y.decades:
        at = y.at(10.0**decade)
        parts.append(f'<path d="M{x.start} {at}H{x.end}" stroke="#ddd"/>')
        parts.append(_text(x.start - 8, at + 4, number_text(decade), 'text-anchor="end"'))
    return parts


def number_text(decade: int) -> str:
    """10**decade as people write it.

    >>> [number_text(-2), number_text(0), number_text(6)]
    ['0.01', '1', '1,000,000']
    """
    return f"{10**decade:,}" if decade >= 0 else f"{10.0**decade:.{-decade}f}"


def _label_heights(wanted: Mapping[str, float]) -> Mapping[str, float]:
    """Place each name as near to the end of its line as the names above it allow."""
    heights: dict[str, float] = {}
    free = 0.0
    for name in sorted(wanted, key=lambda name: wanted[name]):
        heights[name] = free = max(wanted[name], free)
        free += LABEL_HEIGHT
    return heights


def _text(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text x="{x}" y="{y}" {attributes}>{escape(text)}</text>'
