"""No tests: one small example of every file that pomp reads, and what pomp does with it.

The formats stand together in one long file, so that the table at its end has them all.
"""

import contextlib
import fcntl
import io
import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pomp
from pomp.cli import main as cli
from pomp.core.configs import changed
from pomp.core.errors import PompError
from pomp.runs.folder import RunFolder

MODES = ("DEF run m( move m)", "DEF run m( turnLeft m)")
EVOLVE = {"chains": 4, "starts": 4, "validation_starts": 4, "steps": 10, "teams": 1}
PPO = {
    "ppo.total": 256, "ppo.actors": 4, "ppo.steps": 8, "ppo.minibatch": 16, "validation.every": 1,
    "validation.episodes": 2, "learning_rates": (0.001,),
}  # fmt: skip
DATA = {"train": 32, "validation": 8, "test": 4, "seed": 5}


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes:
        make: writes an example into an empty folder.
        file: the file in it that is changed.
        read: reads and uses what is in the folder.
        has_checksum: whether every flipped bit must be noticed.
        needs: a package that reading needs and that may be missing.
    """

    make: object
    file: str
    read: object
    has_checksum: bool = False
    needs: str = ""


_parse = cli._parse


@cache
def _parse_once(words):
    return _parse(list(words))


def command(*words):
    """Call a command; what it refuses is raised again.

    Parsing would take most of the time: equal words, whose paths are relative, are parsed once.
    """
    errors = io.StringIO()
    with (
        contextlib.redirect_stdout(io.StringIO()) as told,
        contextlib.redirect_stderr(errors),
        patch.object(cli, "_parse", lambda given: _parse_once(tuple(given))),
        patch.object(cli, "speak_plainly"),  # concerns help alone
    ):
        try:
            cli.main([str(word) for word in words])
        except SystemExit as ended:
            code = ended.code
    printed = told.getvalue() + errors.getvalue()
    assert "\x1b" not in printed, "control characters were printed"
    if code not in (0, 1):
        raise PompError(errors.getvalue().strip())


def evaluate(path):
    command("eval", path, "--episodes", 1)


def stop(event):
    """End a run at its first event."""
    return True


# Machines


def text_machine(folder):
    pomp.load_machine("zoo:UpNDown/text").save(folder / "machine")
    from pomp.machine.text import write_machine

    write_machine(pomp.load_machine("zoo:UpNDown/text"), folder / "up.machine")


def play_text(folder):
    evaluate(folder / "up.machine")


def play_folder(folder):
    evaluate(folder / "machine")


def network_machine(folder):
    pomp.load_machine("zoo:StairClimber/network").save(folder)


def extracted(folder):
    """A table of codes, as `pomp extract` makes it."""
    from networks import STEP, TURN, of_network
    from pomp.analysis import ExtractionConfig, extract
    from pomp.machine.config import BottleneckConfig

    bottleneck = BottleneckConfig(steps=20)
    config = ExtractionConfig(sizes=(2,), episodes=4, trials=2, bottleneck=bottleneck)
    extract(of_network([STEP, TURN]), config).machine.save(folder)


def quantised(folder):
    """A network that remembers by codes, and the Moore machine out of it."""
    from networks import STEP, TURN, of_network
    from pomp.analysis import quantise
    from pomp.machine.config import BottleneckConfig, QuantisingConfig

    config = QuantisingConfig(
        seen_units=3, state_units=2, bottleneck=BottleneckConfig(steps=20), epochs=1, episodes=4,
        most_steps=12, trials=2,
    )  # fmt: skip
    found = quantise(of_network([STEP, TURN], memory=6), config)
    found.machine.save(folder / "quantised")
    found.moore.save(folder / "moore")


def play_quantised(folder):
    evaluate(folder / "quantised")


def play_moore(folder):
    evaluate(folder / "moore")


def program_file(folder):
    (folder / "walk.txt").write_text("# walks\nDEF run m( WHILE c( frontIsClear c) w( move w) m)\n")


def map_file(folder):
    from pomp.engine.starts import draw_starts
    from pomp.tasks.catalog import find_task

    worlds = draw_starts(find_task("Maze").configure(), 1, 0)
    (folder / "maze.txt").write_text(worlds.to_text() + "\n")


def run_program(folder):
    command("run", "Maze", folder / "walk.txt")


def begin_with_programs(folder):
    """Read the programs that a search begins with."""
    pomp.search(
        "Maze", method="annealing", settings={**SEARCH, "from": folder / "walk.txt"}, on_event=stop
    )


def run_in_map(folder):
    command("run", "Maze", MODES[0], "--world", folder / "maze.txt")


# Runs


def evolution(folder):
    pomp.evolve("StairClimber", rounds=1, settings=EVOLVE, out=folder / "run")


def resume_evolution(folder):
    """Take up the checkpoint and compute one round more."""
    from pomp.runs.evolutions import EvolveSeed

    plan = replace(read_plan(folder, "evolve", _evolve_plan()), rounds=2)
    [(setting, seed)] = plan.pairs
    work = EvolveSeed(plan, setting, seed, RunFolder(folder / "run"), "")
    work.open()
    work.advance(lambda: False)


def _evolve_plan():
    from pomp.runs.evolve_plan import EvolvePlan

    return EvolvePlan


def read_plan(folder, kind, plan):
    """Read a run's config as far as a plan."""
    from pomp.runs.asked import plan_before

    return plan_before(RunFolder(folder / "run"), kind, plan.from_json, resume=True, trusted=tuple)


def report(folder):
    command("report", folder / "run")


def look_at(folder, kind, plan):
    """Read a run's config as far as a plan, and report what is there."""
    read_plan(folder, kind, plan)
    command("report", folder / "run", *(("--starts", 1) if kind == "search" else ()))


def look_at_evolution(folder):
    look_at(folder, "evolve", _evolve_plan())


def training(folder):
    pomp.train("StairClimber", preset="paper", modes=MODES, settings=PPO, out=folder / "run")


def resume_training(folder):
    """Take up the checkpoint and learn from one rollout more."""
    from pomp.runs.trainings import TrainRun
    from pomp.runs.transitions import TransitionsRun

    plan = read_plan(folder, "train", _train_plan())
    longer = changed(plan.learning, {"ppo.total": 288})
    run = TrainRun(replace(plan, learning=longer), "cpu", RunFolder(folder / "run"))
    [work] = [one for one in run.works() if isinstance(one, TransitionsRun)][:1]
    work.open()
    work.advance(lambda: False)


def _train_plan():
    from pomp.runs.plan import TrainPlan

    return TrainPlan


def look_at_training(folder):
    look_at(folder, "train", _train_plan())


HPRL = {
    "policy.hidden": 8, "policy.programs": 2, "ppo.total": 32, "ppo.actors": 4, "ppo.steps": 8,
    "ppo.minibatch": 16, "validation.every": 1, "validation.episodes": 2,
}  # fmt: skip


def hprl(folder):
    """A training of policies that write programs, and one of them."""
    pomp.train("Seeder", method="hprl", settings=HPRL, out=folder / "run")
    (folder / "run/Seeder/seed0/policy").rename(folder / "policy")


def play_policy(folder):
    from pomp.hprl import MetaPolicy

    MetaPolicy.load(folder / "policy").evaluate(episodes=1, embedding=_hprl_space())


@cache
def _hprl_space():
    from pomp.hprl.episodes import load_space

    return load_space("hprl", "cpu")


def resume_hprl(folder):
    """Take up the checkpoint and learn from one rollout more."""
    from pomp.hprl.config import configure_hprl
    from pomp.hprl.training import MetaTraining, meta_member
    from pomp.runs.transitions import TransitionsRun
    from pomp.tasks.catalog import find_task

    config = configure_hprl("paper", {**HPRL, "ppo.total": 64})
    members = [meta_member(find_task("Seeder").configure(), 0, config)]
    training = MetaTraining(members, config, "cpu", _hprl_space())
    work = TransitionsRun(training, RunFolder(folder / "run"), "policies")
    work.open()
    work.advance(lambda: False)


SEARCH = {"proposer.candidates": 64, "proposer.chains": 8}
CEM = {"proposer.iterations": 3, "proposer.population": 4, "mode.runs": 1, "mode.modes": 2}


def search_of(method, settings):
    def make(folder):
        weights(folder)  # a small embedding, which is read in every case
        given = {**settings, "embedding": str(folder / "weights.safetensors")}
        taken = []
        pomp.search(
            "StairClimber", method=method, settings=given, out=folder / "run",
            on_event=lambda _: bool(taken) or taken.append(1),
        )  # fmt: skip
        if not (folder / "run/state.safetensors").is_file():
            _stopped_search(folder, method, given)

    return make


def _stopped_search(folder, method, settings):
    """Begin a search again and keep the checkpoint of its second iteration."""
    from pomp.modes.jobs import Job
    from pomp.modes.methods import configure
    from pomp.runs.searches import SearchRun
    from pomp.tasks.catalog import find_task

    setting = find_task("StairClimber").configure()
    job = Job(setting, 0, configure(method, "paper", setting, settings))
    run = SearchRun([job], "cpu", RunFolder(folder / "run"))
    run.open()
    run.advance(lambda: False)
    run.save()


def finished_search(folder):
    pomp.search("StairClimber", method="cem", settings={**CEM, "mode.modes": 1}, out=folder / "run")


def resume_search(folder):
    pomp.search(out=folder / "run", resume=True)


def look_at_search(folder):
    from pomp.runs.search_plan import SearchPlan

    look_at(folder, "search", SearchPlan)


def plot(folder):
    command("plot", folder / "run", "--out", folder / "picture.svg")


# Embeddings


@cache
def _dataset():
    from pomp.embedding import DatasetConfig, make_dataset

    return make_dataset(DatasetConfig(**DATA))


def dataset(folder):
    from pomp.embedding import save_dataset

    save_dataset(_dataset(), folder / "data.safetensors")


def use_dataset(folder):
    """Read it and take a step of a training on it."""
    from pomp.embedding import load_dataset

    _trainer(load_dataset(folder / "data.safetensors")).step(lambda: False)


def _trainer(data):
    from pomp.embedding import ModelConfig, TrainingConfig
    from pomp.embedding.config import ReinforceConfig
    from pomp.embedding.train import Trainer

    model = ModelConfig(latent=8, width=8, policy_width=8)
    reinforce = ReinforceConfig(start_accuracy=0.0, batch=16, states=3)
    config = TrainingConfig(epochs=1, batch=16, demonstrations=2, model=model, reinforce=reinforce)
    return Trainer(config, data, "cpu", lambda model, metrics: None)


def weights(folder):
    from pomp.embedding.weights import save_weights

    save_weights(folder / "weights.safetensors", _trainer(_dataset()).model, {"metrics": {}})


def use_weights(folder):
    command("embedding", "info", folder / "weights.safetensors")


def embedding_state(folder):
    from pomp.core.storage import write_arrays

    trainer = _trainer(_dataset())
    trainer.step(lambda: False)
    write_arrays(folder / "state.safetensors", *trainer.to_arrays())


def resume_embedding(folder):
    trainer = _trainer(_dataset())
    RunFolder(folder).restore(trainer.restore)
    trainer.step(lambda: False)


# Results


def store(folder):
    from pomp.experiments.store import pack
    from stores import keep, seeds_of

    results = seeds_of("pomp", "Farmer", (0.5, 0.75))
    keep(folder / "store", results)
    (folder / "results.jsonl.gz").write_bytes(pack(results))


def read_store(folder):
    command("results", "query", "select mean from cells", "--store", folder / "store")


def read_pack(folder):
    command("results", "query", "select mean from cells", "--store", folder / "results.jsonl.gz")


def piece(folder):
    from pomp.experiments.cells import Cell
    from pomp.experiments.pieces import cut

    [made] = cut([Cell(method="leaps", task="Farmer", seed=0)], "cpu")
    place = folder / "store/runs" / made.name
    place.mkdir(parents=True)
    (folder / "store/store.json").write_text('{"format": 1}')
    (place / "piece.json").write_text(json.dumps({**made.to_json(), "seconds": 1.5}))
    place.rename(folder / "store/runs/piece")


def read_piece(folder):
    from pomp.experiments.pieces import WorkPiece, read_told

    WorkPiece.from_json(read_told(folder / "store/runs/piece/piece.json"))


SEED = "run/StairClimber/seed0"
CELL = "store/cells/paper/pomp/Farmer/seed0.json"
FORMATS = {
    "machine text": Format(text_machine, "up.machine", play_text),
    "machine json": Format(text_machine, "machine/machine.json", play_folder, True),
    "machine weights": Format(network_machine, "machine.safetensors", evaluate, True),
    "network json": Format(network_machine, "machine.json", evaluate, True),
    "table weights": Format(extracted, "machine.safetensors", evaluate, True),
    "table json": Format(extracted, "machine.json", evaluate, True),
    "quantised weights": Format(quantised, "quantised/machine.safetensors", play_quantised, True),
    "moore weights": Format(quantised, "moore/machine.safetensors", play_moore, True),
    "moore json": Format(quantised, "moore/machine.json", play_moore, True),
    "policy weights": Format(hprl, "policy/policy.safetensors", play_policy, True),
    "policy json": Format(hprl, "policy/policy.json", play_policy, True),
    "policy state": Format(hprl, "run/ensemble8x8.safetensors", resume_hprl, True),
    "program": Format(program_file, "walk.txt", run_program),
    "given programs": Format(program_file, "walk.txt", begin_with_programs),
    "map": Format(map_file, "maze.txt", run_in_map),
    "evolve config": Format(evolution, "run/config.json", look_at_evolution, True),
    "evolve state": Format(evolution, f"{SEED}/state.safetensors", resume_evolution, True),
    "evolve metrics": Format(evolution, f"{SEED}/metrics.jsonl", plot, needs="matplotlib"),
    "evaluation": Format(evolution, f"{SEED}/evaluation.json", report, True),
    "train config": Format(training, "run/config.json", look_at_training, True),
    "train state": Format(training, "run/ensemble12x12.safetensors", resume_training, True),
    "search config": Format(finished_search, "run/config.json", look_at_search, True),
    "modes": Format(finished_search, f"{SEED}/modes.json", look_at_search, True),
    "search metrics": Format(finished_search, f"{SEED}/metrics.jsonl", look_at_search),
    "trajectory": Format(
        finished_search, f"{SEED}/trajectory.safetensors", plot, True, "matplotlib"
    ),
    "cem state": Format(search_of("pomp", CEM), "run/state.safetensors", resume_search, True),
    "climb state": Format(
        search_of("hill-climbing", SEARCH), "run/state.safetensors", resume_search, True
    ),
    "dataset": Format(dataset, "data.safetensors", use_dataset, True),
    "embedding": Format(weights, "weights.safetensors", use_weights, True),
    "embedding state": Format(embedding_state, "state.safetensors", resume_embedding, True),
    "cell": Format(store, CELL, read_store, needs="duckdb"),
    "store": Format(store, "store/store.json", read_store, needs="duckdb"),
    "pack": Format(store, "results.jsonl.gz", read_pack, needs="duckdb"),
    "piece": Format(piece, "store/runs/piece/piece.json", read_piece),
}  # fmt: skip


def make_example(name, root):
    """Return the folder of an example, which is made on first use and shared by those alike."""
    make = FORMATS[name].make
    folder = Path(root) / "examples" / next(one for one in FORMATS if FORMATS[one].make is make)
    folder.parent.mkdir(exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            made = folder.with_suffix(".made")
            made.mkdir()
            with contextlib.chdir(made):
                make(Path())
            made.rename(folder)
    return folder
