"""What machines earned, as notebooks show it."""

import numpy as np

from pomp.core.texts import escape_html
from pomp.machine.evaluation import Evaluation

BINS = 24
_WIDTH, _HEIGHT, _BAR = 240, 48, "#3f74d1"


def show_evaluation(found: Evaluation) -> str:
    """Return an evaluation as HTML: mean, interval, and how the returns are spread."""
    low, high = found.interval
    worth = f"mean return {found.mean:.4f}, 95 % interval {low:.4f} to {high:.4f}"
    if found.weights is not None:
        worth = f"exact return {found.mean:.6f}"
    scale = f" x{found.setting.scale}" if found.setting.scale > 1 else ""
    actions = float(np.average(found.actions, weights=found.weights))
    return (
        f"<div><b>{escape_html(found.setting.task.name)}</b>{scale}: {worth}<br>{_histogram(found)}"
        f"<br>{len(found.returns)} returns from {found.returns.min():.4f} to "
        f"{found.returns.max():.4f}, std {found.std:.4f}; {actions:.1f} actions on average</div>"
    )


def _histogram(found: Evaluation) -> str:
    """Return the returns as bars in SVG, from the least to the largest; equal ones as one bar."""
    least, most = float(found.returns.min()), float(found.returns.max())
    count = BINS if most > least else 1
    shares, _ = np.histogram(found.returns, count, weights=found.weights)
    wide = _WIDTH / BINS
    bars = "".join(
        f'<rect x="{wide * place:g}" y="{_HEIGHT - high:.1f}" width="{wide - 1:g}" '
        f'height="{high:.1f}" fill="{_BAR}"/>'
        for place, high in enumerate((_HEIGHT * shares / shares.max()).tolist())
        if high
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT + 1}">'
        f'<path d="M0 {_HEIGHT + 0.5}H{_WIDTH}" stroke="#8a929c"/>{bars}</svg>'
    )
