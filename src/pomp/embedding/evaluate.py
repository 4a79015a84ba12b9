"""How good an embedding is: reconstruction, behaviour, smoothness.

Programs are encoded to the means of their posteriors; noise is added only where its effect is
measured. `latents` `[B, Z]` float32 are such means of B programs.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from pomp.core.streams import Purpose, open_streams
from pomp.dsl.bytecode import compile_ids
from pomp.embedding.batches import Planes
from pomp.embedding.comparison import agreement
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.dataset import Dataset
from pomp.embedding.demonstrations import Demonstrations, perform_actions, random_worlds
from pomp.embedding.model import NO_OP
from pomp.embedding.space import Embedding
from pomp.engine.starts import reset
from pomp.karel.world import memory_of
from pomp.tasks.task import Setting

SMOOTH_PROGRAMS, SMOOTH_STATES, SMOOTH_STEP = 2000, 10, 0.1
SMOOTH_WALLS = 0.25
PARSED_LATENTS = 10_000
_IMITATED_AT_ONCE = 512  # programs whose demonstrations are imitated together


def evaluate_embedding(
    embedding: Embedding,
    dataset: Dataset,
    seed: int = 0,
    report: Callable[[int], None] | None = None,
) -> dict[str, float]:
    """Measure an embedding on some programs.

    Args:
        embedding: the embedding.
        dataset: programs and demonstrations it was not trained on.
        seed: the seed of the random latents and worlds.
        report: called with how many programs were imitated since it was last called.

    Returns:
        `program_accuracy`, `token_accuracy`: greedy decoding of the programs' means.
        `action_accuracy`, `demo_accuracy`: the condition policy imitating the demonstrations on
        its own. `parse_rate`: share of standard normal latents that decode to a program.
        `smoothness`: agreement of behaviour between a program and its neighbour at 0.1 sigma.
    """
    latents = embedding.encode(dataset.ids)
    right, share = compare_tokens(
        embedding.decode(latents)[:, 1:], dataset.ids, dataset.vocabulary.pad
    )
    actions, demos = imitate(embedding, dataset, latents, report)
    return {
        "program_accuracy": float(right.mean()),
        "token_accuracy": float(share.mean()),
        "action_accuracy": float(actions.mean()),
        "demo_accuracy": float(demos.mean()),
        "parse_rate": parse_rate(embedding, seed),
        "smoothness": smoothness(embedding, latents[:SMOOTH_PROGRAMS], seed),
    }


def compare_tokens(
    generated: NDArray[np.uint8], ids: NDArray[np.uint8], pad: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Compare generated programs with the true ones.

    The steps of the true program count, and those up to the generated end, padding included.

    Args:
        generated: `[B, MAX_GENERATED]` uint8, the tokens behind `DEF`, padded.
        ids: `[B, L]` uint8, the true programs, `DEF` first, padded.
        pad: the padding's id.

    Returns:
        `[B]` bool, whether all tokens of a program are right, and `[B]` float64, the share of them.
    """
    targets = np.full_like(generated, pad)
    targets[:, : ids.shape[1] - 1] = ids[:, 1:]
    steps = np.arange(MAX_GENERATED)
    is_counted = (targets != pad) | (steps <= (generated != pad).sum(axis=1)[:, None])
    is_right = (generated == targets) & is_counted
    share = is_right.sum(axis=1) / is_counted.sum(axis=1)
    return share == 1.0, share


def imitate(
    embedding: Embedding,
    dataset: Dataset,
    latents: NDArray[np.float32],
    report: Callable[[int], None] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Let the condition policy act on its own from the demonstrations' starts.

    The steps of the demonstration count, and those up to the policy's end, for at most as many
    steps as the longest demonstration allowed in the dataset has states.

    Args:
        embedding: holds the policy.
        dataset: B programs with D demonstrations each.
        latents: `[B, Z]` float32, the programs' latents.
        report: called with how many programs were imitated since it was last called.

    Returns:
        `[B * D]` float64, the share of right actions, and `[B * D]` bool, whether all are right.
    """
    shares, is_all = [], []
    for first in range(0, len(dataset), _IMITATED_AT_ONCE):
        rows = np.arange(first, min(first + _IMITATED_AT_ONCE, len(dataset)))
        part = dataset.take(rows)
        performed = _run_policy(embedding, part, latents[rows])
        shown = part.demonstrations
        steps = np.arange(performed.shape[1])
        length = shown.length.ravel()[:, None]
        targets = np.full_like(performed, NO_OP)
        targets[:, :-1] = shown.actions.reshape(len(targets), -1)
        targets[steps >= length] = NO_OP
        ends = (performed != NO_OP).sum(axis=1)[:, None]
        is_counted = (steps < length) | (steps <= ends)
        is_right = (performed == targets) & is_counted
        shares.append(is_right.sum(axis=1) / is_counted.sum(axis=1))
        is_all.append(is_right.sum(axis=1) == is_counted.sum(axis=1))
        if report:
            report(len(rows))
    return np.concatenate(shares), np.concatenate(is_all)


def _run_policy(
    embedding: Embedding, dataset: Dataset, latents: NDArray[np.float32]
) -> NDArray[np.uint8]:
    """Return the policy's actions, `[B * D, T]` uint8, `NO_OP` from its end on."""
    shown, policy, device = dataset.demonstrations, embedding.model.policy, embedding.device
    count = shown.pose.size
    performed = np.full((count, shown.actions.shape[2] + 1), NO_OP, np.uint8)
    cells, pose = shown.cells.reshape(count, -1).copy(), shown.pose.ravel().copy()
    setting = random_worlds(dataset.config.walls)
    latent = torch.from_numpy(latents).to(device).repeat_interleave(shown.pose.shape[1], dim=0)
    previous = torch.full((count, 1), NO_OP, device=device)
    planes = Planes(embedding.model.config.channels).to(device)
    state, going = None, np.arange(count)
    with torch.no_grad():
        for step in range(performed.shape[1]):
            seen = policy.see(
                planes(
                    torch.from_numpy(cells[going]).to(device),
                    torch.from_numpy(pose[going]).to(device).long(),
                )
            )
            logits, state = policy(latent, seen.unsqueeze(1), previous, state)
            previous = logits[:, -1].argmax(dim=1, keepdim=True)
            chosen = previous[:, 0].cpu().numpy()
            performed[going, step] = chosen
            kept = np.flatnonzero(chosen != NO_OP)
            perform_actions(setting, cells, pose, going[kept], chosen[kept])
            if len(kept) == 0:
                break
            rows = torch.from_numpy(kept).to(device)
            latent, previous, state = latent[rows], previous[rows], state[rows]
            going = going[kept]
    return performed


def parse_rate(embedding: Embedding, seed: int) -> float:
    """Return the share of standard normal latents whose program parses."""
    drawn = torch.from_numpy(evaluation_noise(PARSED_LATENTS, embedding.latent, seed, 0))
    latents = embedding.model.settle(drawn)
    return float(compile_ids(embedding.decode(latents), embedding.vocabulary).valid.mean())


def smoothness(embedding: Embedding, latents: NDArray[np.float32], seed: int) -> float:
    """Return how far the programs at `latents` behave like those near them, on random worlds."""
    near = latents + SMOOTH_STEP * evaluation_noise(len(latents), latents.shape[1], seed, 1)
    if embedding.model.config.tanh:  # its latents lie within the unit cube
        near = near.clip(-1, 1)
    vocabulary = embedding.vocabulary
    one, two = (compile_ids(embedding.decode(z), vocabulary) for z in (latents, near))
    starts, setting = draw_comparison_starts(len(latents), SMOOTH_STATES, seed)
    return float((agreement(one, two, starts, setting) * one.valid).mean())


def draw_comparison_starts(programs: int, states: int, seed: int) -> tuple[Demonstrations, Setting]:
    """Draw random worlds on which programs are compared.

    Args:
        programs: how many programs.
        states: how many worlds for each of them.
        seed: the seed of the worlds.

    Returns:
        The worlds as demonstrations without actions, and the kind of worlds they are.
    """
    setting = random_worlds(SMOOTH_WALLS)
    worlds = reset(setting, open_streams(Purpose.EVALUATION, seed, 2, worlds=programs * states))
    shape = (programs, states)
    starts = Demonstrations(
        memory_of(worlds).cells.reshape(*shape, -1), memory_of(worlds).pose.reshape(shape),
        np.zeros((*shape, 0), np.uint8), np.zeros(shape, np.int32),
        np.full(programs, states, np.int32),
    )  # fmt: skip
    return starts, setting


def evaluation_noise(rows: int, columns: int, seed: int, index: int) -> NDArray[np.float32]:
    """Draw standard normal noise `[rows, columns]` float32, the same on every device.

    Draws of one seed differ by `index`.
    """
    key = open_streams(Purpose.EVALUATION, seed, index, worlds=1)[0]
    generator = torch.Generator().manual_seed(int(key >> np.uint64(1)))
    return torch.randn((rows, columns), generator=generator).numpy()
