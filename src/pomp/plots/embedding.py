"""Pictures of an embedding and of its training."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

if TYPE_CHECKING:
    from pomp.embedding.survey import SpaceMap

COLOURS = ("#4477aa", "#ee6677", "#ccbb44", "#228833", "#aa3377", "#999999")


def draw_space(ax: Axes, space: "SpaceMap", name: str) -> None:
    """Draw every program as a point coloured by the action it mostly begins with."""
    from pomp.embedding.survey import KINDS

    for kind, colour in enumerate(COLOURS):
        chosen = space.points[space.kind == kind]
        if len(chosen):
            label = f"{KINDS[kind]} ({len(chosen)})"
            ax.scatter(chosen[:, 0], chosen[:, 1], s=6, c=colour, label=label, linewidths=0)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(f"{len(space.points)} programs in the space of embedding '{name}' (t-SNE)")
    ax.legend(title="mostly begins with", markerscale=2, fontsize="small")


def draw_losses(ax: Axes, metrics: Sequence[dict[str, Any]]) -> None:
    """Draw the terms of the loss over the epochs, on both splits."""
    epochs = [line["epoch"] + 1 for line in metrics]
    for term, colour in zip(("reconstruction", "kl", "behaviour", "total"), COLOURS, strict=False):
        for split, style in (("train", ":"), ("validation", "-")):
            values = [line[split][term] for line in metrics]
            if any(values):
                ax.plot(epochs, values, style, color=colour, label=f"{term}, {split}")
    ax.set_yscale("log")
    ax.set_xlabel("epoch")
    ax.set_ylabel("loss (nats)")
    ax.legend(fontsize="small")


def draw_accuracy(ax: Axes, metrics: Sequence[dict[str, Any]]) -> None:
    """Draw the greedy program accuracy over the epochs, and after each reinforce pass."""
    epochs = np.array([line["epoch"] + 1 for line in metrics])
    after = "greedy_program_accuracy_after_reinforce"
    ax.plot(
        epochs,
        [100 * line["greedy_program_accuracy"] for line in metrics],
        color=COLOURS[0],
        label="after the supervised steps",
    )
    passed = [line for line in metrics if after in line]
    if passed:
        ax.plot(
            [line["epoch"] + 1 for line in passed],
            [100 * line[after] for line in passed],
            color=COLOURS[1],
            label="after the reinforce pass",
        )
    ax.set_xlabel("epoch")
    ax.set_ylabel("whole programs right (%), validation, sampled latents")
    ax.legend(fontsize="small")
