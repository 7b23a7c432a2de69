"""A series with its band as a picture that needs no library."""

import math


def band(values, deviations, truth, title, width=640, height=280):
    """The text of an SVG: released values with the band that holds 95 % of their noise, and the truth beside them."""
    low = min(min(v - 1.96 * d for v, d in zip(values, deviations)), min(truth))
    high = max(max(v + 1.96 * d for v, d in zip(values, deviations)), max(truth))
    left, right, top, bottom = 48, 12, 32, 28

    def x(step):
        return left + (width - left - right) * step / (len(values) - 1)

    def y(value):
        return height - bottom - (height - top - bottom) * (value - low) / (high - low)

    def points(series):
        return " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in series)

    above = list(enumerate(v + 1.96 * d for v, d in zip(values, deviations)))
    below = list(enumerate(v - 1.96 * d for v, d in zip(values, deviations)))[::-1]
    # Round numbers, four to ten of them.
    unit = 10 ** math.floor(math.log10((high - low) / 4))
    unit *= max(factor for factor in (1, 2, 5) if factor * unit <= (high - low) / 4)
    ticks = [unit * place for place in range(math.ceil(low / unit), math.floor(high / unit) + 1)]
    lines = "".join(
        f'<line x1="{left}" x2="{width - right}" y1="{y(t):.1f}" y2="{y(t):.1f}" stroke="#ddd"/>'
        f'<text x="{left - 6}" y="{y(t) + 4:.1f}" text-anchor="end">{t:.0f}</text>'
        for t in ticks
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11" '
        f'role="img" aria-label="{title}"><rect width="{width}" height="{height}" fill="#fff"/>'
        f'<text x="{left}" y="18" font-size="13">{title}</text>{lines}'
        f'<polygon points="{points(above + below)}" fill="#4477aa" fill-opacity="0.25"/>'
        f'<polyline points="{points(enumerate(values))}" fill="none" stroke="#4477aa" stroke-width="1.5"/>'
        f'<polyline points="{points(enumerate(truth))}" fill="none" stroke="#222" stroke-dasharray="4 3"/>'
        f'<text x="{width - right}" y="{height - 8}" text-anchor="end">step {len(values)}</text></svg>'
    )
