"""MetaPolicy: a policy that writes its programs itself. A value that can be saved and played."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pomp.core.configs import from_json, to_json
from pomp.core.cuda import check_device, to_host
from pomp.core.errors import (
    DataFileError,
    MissingExtraError,
    PompError,
    UnloadableError,
    UntrustedModuleError,
)
from pomp.core.schemas import FREE, NAME, Maybe, Named, Record, Whole
from pomp.core.storage import (
    as_path,
    make_folder,
    read_arrays,
    read_json,
    with_checksum,
    write_arrays,
    write_text,
)
from pomp.embedding.space import Embedding
from pomp.hprl.config import MetaConfig
from pomp.hprl.episodes import LatentViews, ProgramEpisodes, load_space
from pomp.hprl.network import MetaNetwork, MetaShape
from pomp.hprl.rollouts import LatentActor, draw_noise
from pomp.karel.world import WorldBatch
from pomp.machine.config import POLICY_FILE
from pomp.machine.evaluation import Evaluation, begin_drawn, list_all, outcomes
from pomp.machine.schemas import SIZE, VERSIONED, WEIGHTS
from pomp.tasks.catalog import find_task, source_of
from pomp.tasks.task import Setting

POLICY_WEIGHTS_FILE = "policy.safetensors"
FORMAT = 1
"""Rises when files of this version could not be read by earlier ones."""
KIND = "hprl"
_POLICY = Record(
    {
        "format": Whole(1, FORMAT),
        "kind": NAME,
        "task": NAME,
        "variant": Maybe(NAME),
        "options": Named(NAME, most=100),
        "size": SIZE,
        "config": FREE,
        "latent": Whole(1, 4096),
        "space": NAME,
        "provenance": Named(FREE),
    }
)
"""A policy of this version."""
_DAMAGED = (PompError, LookupError, ValueError, TypeError, ArithmeticError)


@dataclass(frozen=True, repr=False)
class LatentEvaluation(Evaluation):
    """What became of N episodes of a meta-policy.

    Attributes:
        written: the programs of each episode, one after the other, as texts.
    """

    written: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class MetaPolicy:
    """A network that writes programs, the space it writes in, and the task it was made for.

    Attributes:
        setting: the task.
        config: what it is, and how it acts.
        latent: how many numbers stand for a program.
        space: a digest of the embedding's weights.
        arrays: its weights by name, with the shapes `[outputs, ...]` of `MetaShape.parts`.
        provenance: where it comes from; free JSON.
    """

    setting: Setting
    config: MetaConfig
    latent: int
    space: str
    arrays: dict[str, NDArray[np.float32]]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        weights = self._shape.pack(self.arrays)
        if weights.dtype != np.float32 or not np.isfinite(weights).all():
            raise DataFileError("its network has weights that are no finite float32 numbers")

    @property
    def _shape(self) -> MetaShape:
        size = (self.setting.height, self.setting.width)
        return MetaShape(*size, self.latent, self.config.hidden)

    def save(self, folder: str | Path) -> None:
        """Write the policy into a folder, which is made if need be.

        Raises:
            OutputError: it cannot be written.
        """
        path, setting = make_folder(folder), self.setting
        write_arrays(path / POLICY_WEIGHTS_FILE, self.arrays, {"kind": KIND})
        told = with_checksum(
            {
                "format": FORMAT,
                "kind": KIND,
                "task": source_of(setting.task),
                "variant": setting.variant,
                "options": setting.option_texts,
                "size": [setting.height, setting.width],
                "config": to_json(self.config),
                "latent": self.latent,
                "space": self.space,
                "provenance": dict(self.provenance),
            }
        )
        write_text(path / POLICY_FILE, json.dumps(told, indent=1) + "\n")

    @classmethod
    def load(cls, folder: str | Path, allow: Collection[str] = ()) -> "MetaPolicy":
        """Read a policy from the folder that `save` wrote.

        Args:
            folder: the folder, or the policy.json in it.
            allow: modules that the file may name as the home of its task.

        Raises:
            DataFileError: there is none, or it is damaged, from a newer version, or unfit.
            UntrustedModuleError: its task is in a module that is not allowed.
        """
        path = as_path(folder)
        path = path.parent if path.name == POLICY_FILE else path
        values = read_json(path / POLICY_FILE, "policy", VERSIONED)
        if values.get("kind") != KIND:
            raise DataFileError(f"'{path / POLICY_FILE}' is no policy of pomp")
        if values["format"] != FORMAT:
            got = values["format"]
            raise DataFileError(f"'{path}' has policy format {got}, this pomp reads {FORMAT}")
        try:
            _POLICY.check(values)
            arrays, _ = read_arrays(path / POLICY_WEIGHTS_FILE, "policy", WEIGHTS)
            return cls._from_json(values, arrays, allow)
        except (UntrustedModuleError, UnloadableError, MissingExtraError):
            raise
        except _DAMAGED as error:
            raise DataFileError(f"'{path}' holds no usable policy: {error}") from error

    @classmethod
    def _from_json(
        cls, values: dict[str, Any], arrays: dict[str, NDArray[Any]], allow: Collection[str]
    ) -> "MetaPolicy":
        """Read a policy from its values and its `arrays`, `[outputs, ...]` each."""
        height, width = values["size"]
        task = find_task(values["task"], allow)
        return cls(
            setting=task.configure(values["variant"], values["options"], (height, width)),
            config=from_json(MetaConfig, values["config"]),
            latent=values["latent"],
            space=values["space"],
            arrays=arrays,
            provenance=dict(values["provenance"]),
        )

    def open_space(self, device: str) -> Embedding:
        """Load the embedding it writes in.

        Raises:
            ConfigError: the embedding of this name has other weights now.
        """
        embedding = load_space(self.config.embedding, device)
        if embedding.digest != self.space:
            raise DataFileError(
                f"this policy was trained in another embedding '{self.config.embedding}' (weights "
                f"{self.space}, here {embedding.digest}); name the one it was trained in"
            )
        return embedding

    def evaluate(
        self,
        *,
        episodes: int | None = None,
        seed: int | None = None,
        greedy: bool = False,
        device: str = "cpu",
        embedding: Embedding | None = None,
    ) -> LatentEvaluation:
        """Play episodes from starts that are drawn for evaluation alone, or from every start.

        Every start is played once if the likeliest latents are taken and neither `episodes` nor
        `seed` is given, under the conditions of `pomp.machine.evaluate`.

        Args:
            episodes: how many are drawn; None: the task's `episodes`, as the paper's tables have.
            seed: decides which starts and latents are drawn; None: 0.
            greedy: take the likeliest latents, the means, instead of drawing them.
            device: cpu, cuda or auto.
            embedding: the one it writes in, if it is loaded already.

        Raises:
            DataFileError: its embedding has other weights now.
        """
        device = check_device(device)
        embedding = embedding or self.open_space(device)
        if greedy and episodes is None and seed is None and (listed := list_all(self.setting)):
            worlds, weights = listed
            return self._play(worlds.to(device), None, embedding, weights)
        worlds, streams = begin_drawn(self.setting, episodes, seed or 0, device)
        return self._play(worlds, None if greedy else streams, embedding, None)

    def _play(
        self,
        worlds: WorldBatch,
        streams: NDArray[np.uint64] | None,
        embedding: Embedding,
        weights: NDArray[np.float64] | None,
    ) -> LatentEvaluation:
        """Play one episode in every world, in place.

        Args:
            worlds: the starts, written.
            streams: `[N]` uint64, from which latents are drawn; None: the likeliest are taken.
            embedding: the space of programs.
            weights: `[N]` float64, the probability of each start; None: all alike.
        """
        device = torch.device(worlds.device)
        episodes = ProgramEpisodes(self.setting, worlds, self.config, restarts=False)
        views = LatentViews([episodes], 1, embedding, self.config)
        network = MetaNetwork(self._shape, self.config.programs)
        parameters = torch.from_numpy(self._shape.pack(self.arrays))[None].to(device)
        actor = LatentActor(network, parameters, views)
        shape, steps = (1, len(worlds), self.latent), self.config.programs
        noise = torch.zeros(steps, *shape, device=device)
        if streams is not None:
            noise = draw_noise(streams, steps, shape, device)
        written: list[list[str]] = [[] for _ in range(len(worlds))]
        for numbers in noise:
            goes_on = (views.gather("ending")[0] == 0).tolist()
            views.play(actor.draw(numbers).latents)
            for own, ids, is_played in zip(written, views.ids.tolist(), goes_on, strict=True):
                if is_played:
                    own.append(" ".join(embedding.vocabulary.decode(ids)))
        returns, programs, actions, ended = outcomes(episodes)
        paths = np.full((len(worlds), steps), -1, np.int16)
        paths[np.arange(steps) < programs[:, None]] = 0
        texts = tuple(map(tuple, written))
        cuts = to_host(episodes.cuts).astype(np.int64)
        return LatentEvaluation(
            self.setting, returns, programs, actions, ended, paths, weights, cuts, texts
        )
