"""What candidates are worth, in which company, and which of them become modes."""

import numpy as np
import pytest

import pomp
from pomp.conformance.reference import reference_task, run
from pomp.conformance.reference.world import Stream, World
from pomp.dsl.vocabulary import LEAPS
from pomp.modes.batch import Batch
from pomp.modes.cem import CemRun
from pomp.modes.config import ScoreConfig
from pomp.modes.jobs import Job, RunKey
from pomp.modes.methods import configure
from pomp.modes.scoring import Arena, Scorer, Trial, diversity

CANDIDATE = -2
NO_PROGRAMS = ("DEF run m( m)", "DEF run m( move", "DEF run m( WHILE c( not c( c) w( move w) m)")
TEXTS = (
    "DEF run m( WHILE c( frontIsClear c) w( move pickMarker w) turnLeft m)",
    "DEF run m( REPEAT R=5 r( move pickMarker r) turnRight move turnRight m)",
    "DEF run m( IFELSE c( markersPresent c) i( pickMarker move i) ELSE e( putMarker turnLeft e) m)",
    "DEF run m( move move putMarker turnLeft move pickMarker m)",
    *NO_PROGRAMS,
)
MODES = (
    "DEF run m( WHILE c( noMarkersPresent c) w( IF c( frontIsClear c) i( move i) turnLeft w) m)",
    "DEF run m( pickMarker turnRight WHILE c( frontIsClear c) w( move w) m)",
)
LISTS = np.array([[0, -2, -2, -1], [-2, -1, -1, -1], [1, 0, -2, 1], [-2, 1, -1, -1]], np.int32)


def ids_of(texts):
    rows = np.full((len(texts), 46), LEAPS.tokens.index("<pad>"), np.uint8)
    for row, text in zip(rows, texts, strict=True):
        tokens = [LEAPS.tokens.index(token) for token in text.split()]
        row[: len(tokens)] = tokens
    return rows


def setting_of(name):
    return pomp.find_task(name).configure()


def tried(arena, texts, epoch=0, noise=None):
    trial = Trial(arena, ids_of(texts), np.full(len(texts), epoch, np.int64), noise)
    Scorer(LEAPS).score([trial])
    return trial


def arena_of(name, stream=3, is_alone=False, **score):
    setting, config = setting_of(name), ScoreConfig(**{"starts": 4, **score})
    if is_alone:
        return Arena(setting, config, np.uint64(stream))
    return Arena(setting, config, np.uint64(stream), MODES, LISTS)


def lists_with(place):
    """The lists with the candidate's number in its place, without padding."""
    return [[place if x == CANDIDATE else int(x) for x in row if x != -1] for row in LISTS]


# ---------------------------------------------------------------- diversity


@pytest.mark.parametrize(
    ("other", "expected"), [([2, 0], 0.2689), ([0, 3], 0.5), ([-1, 0], 0.7311)]
)
def test_diversity_of_same_orthogonal_and_opposite(other, expected):
    found = diversity(np.array([[5, 0]], np.float32), np.array([other], np.float32), 1.0)
    assert found == pytest.approx([expected], abs=5e-5)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_diversity_is_a_sigmoid_of_the_nearest(temperature):
    draw = np.random.default_rng(0)
    vectors, others = (draw.normal(size=(n, 256)).astype(np.float32) for n in (20, 7))
    others[2] = vectors[3] * 0.5 + others[2] * 0.1
    cosines = vectors.astype(np.float64) @ others.T.astype(np.float64)
    cosines /= np.linalg.norm(vectors, axis=1)[:, None] * np.linalg.norm(others, axis=1)
    expected = 1 / (1 + np.exp(temperature * cosines.max(axis=1)))
    assert diversity(vectors, others, temperature) == pytest.approx(expected, abs=1e-6)
    assert diversity(vectors, others[:0], temperature).tolist() == [1.0] * 20


# ---------------------------------------------------------------- returns


@pytest.mark.parametrize("name", ["Seesaw", "UpNDown", "Farmer", "InfHarvester", "DoorKey", "Maze"])
@pytest.mark.parametrize("cap", ["calls220", "actions200"])
def test_a_return_is_the_mean_over_lists_and_starts_per_program(name, cap):
    arena = arena_of(name, cap=cap)
    trial = tried(arena, TEXTS)
    is_program = [text not in NO_PROGRAMS for text in TEXTS]
    assert trial.valid.tolist() == is_program
    lengths = np.array([[3], [1], [4], [2]])
    for text, found, actions in zip(TEXTS[:4], trial.returns, trial.actions, strict=False):
        lists = [row + [-1] * (4 - len(row)) for row in lists_with(2)]
        result = pomp.rollout(arena.setting, [*MODES, text], arena.starts(0), lists=lists, cap=cap)
        assert result.returns.shape == (4, 4)
        assert found == pytest.approx((result.returns / lengths).mean(), abs=1e-12)
        assert actions == result.actions.sum()
    assert trial.executions[:4].tolist() == [4 * 10] * 4


@pytest.mark.parametrize("name", ["Seesaw", "InfHarvester", "FourCorner"])
def test_a_return_is_what_the_plain_reference_earns(name):
    arena = arena_of(name)
    starts = arena.starts(0)
    found = tried(arena, TEXTS[:2]).returns
    for text, value in zip(TEXTS[:2], found, strict=True):
        total = 0.0
        for b in range(len(starts)):
            for programs in lists_with(2):
                task = reference_task(name)
                pose = int(starts.row[b]), int(starts.col[b]), int(starts.facing[b])
                cells = starts.cells[b].tolist()
                world = World.from_bytes(cells, starts.height, starts.width, *pose)
                task.begin(world, Stream(int(starts.stream[b])))
                run(task, [(*MODES, text)[place] for place in programs], "calls220")
                total += task.value() / len(programs)
        assert value == pytest.approx(total / 16, abs=1e-9)


@pytest.mark.parametrize("discount", [0.99, 0.5])
def test_discounted_returns_weigh_every_action(discount):
    arena = arena_of("InfHarvester", discount=discount)
    found = tried(arena, TEXTS[:3]).returns
    for text, value in zip(TEXTS[:3], found, strict=True):
        total = 0.0
        for programs in lists_with(2):
            trace = pomp.record(arena.setting, [*MODES, text], arena.starts(0), lists=[programs])
            for rewards, length in zip(trace.arrays.reward, trace.arrays.length, strict=True):
                worth = rewards[:length] @ discount ** np.arange(length)
                total += worth / len(programs)
        assert value == pytest.approx(total / 16, abs=1e-9)


@pytest.mark.parametrize(("bonus", "invalid"), [(0.1, -1.0), (0.1, 0.01), (0.0, -1.0)])
def test_programs_get_a_bonus_and_others_their_own_score(bonus, invalid):
    trial = tried(arena_of("Seesaw", bonus=bonus, invalid=invalid), TEXTS)
    assert trial.plain_scores() == pytest.approx([*(trial.returns[:4] + bonus), *[invalid] * 3])


def test_the_exponential_is_taken_of_the_whole_score():
    trial = tried(arena_of("Seesaw", exponential=True), TEXTS)
    expected = np.exp([*(trial.returns[:4] + 0.1), *[-1.0] * 3])
    assert trial.plain_scores() == pytest.approx(expected)


# ---------------------------------------------------------------- starts and noise


def test_an_epoch_has_its_own_starts_and_a_stream_too():
    arena = arena_of("CleanHouse", is_alone=True, starts=10)
    assert len(arena.starts(0)) == 10
    first = arena.starts(0).cells.tobytes()
    others = arena.starts(1).cells.tobytes(), arena_of("CleanHouse", 4, starts=10).starts(0)
    arena.starts(2)
    assert arena.starts(0).cells.tobytes() == first
    assert first != others[0]
    assert first != others[1].cells.tobytes()


def test_candidates_meet_the_starts_of_their_epochs():
    arena = arena_of("CleanHouse", is_alone=True)
    trial = Trial(arena, ids_of(TEXTS[:1] * 3), np.array([0, 5, 0]))
    Scorer(LEAPS).score([trial])
    for epoch, value in zip((0, 5, 0), trial.returns, strict=True):
        result = pomp.rollout(arena.setting, [TEXTS[0]], arena.starts(epoch))
        assert value == pytest.approx(result.returns.mean())


def test_noise_changes_what_happens_and_not_where_it_starts():
    noise = np.array([1, 2, 1, 3], np.uint64)
    text = [
        "DEF run m( REPEAT R=19 r( WHILE c( frontIsClear c) w( pickMarker move w) turnLeft r) m)"
    ] * 4
    found = tried(arena_of("InfHarvester"), text, noise=noise).returns
    assert found[0] == found[2]
    assert len(set(found.tolist())) == 3
    for name in ("CleanHouse", "DoorKey"):  # random starts, nothing random afterwards
        plain = tried(arena_of(name), TEXTS[:4])
        noisy = tried(arena_of(name), TEXTS[:4], noise=noise)
        assert noisy.returns.tolist() == plain.returns.tolist()


def test_without_noise_equal_programs_score_alike():
    arena = arena_of("InfHarvester")
    assert len(set(tried(arena, TEXTS[:1] * 5).returns.tolist())) == 1
    assert (
        tried(arena, TEXTS).returns.tolist()
        == tried(arena_of("InfHarvester"), TEXTS).returns.tolist()
    )


def test_a_trial_does_not_depend_on_its_company():
    def trials():
        arenas = [arena_of("Seesaw"), arena_of("Seesaw", 9, True), arena_of("InfHarvester")]
        arenas += [arena_of("Seesaw", cap="actions200"), arena_of("Seesaw", discount=0.9)]
        arenas += [arena_of("Seesaw", starts=2), arena_of("Maze", is_alone=True)]
        return [Trial(a, ids_of(TEXTS), np.arange(7) % 2) for a in arenas]

    alone, together, reverse = trials(), trials(), trials()
    for trial in alone:
        Scorer(LEAPS).score([trial])
    Scorer(LEAPS).score(together)
    Scorer(LEAPS).score(reverse[::-1])
    for one, two, three in zip(alone, together, reverse, strict=True):
        assert one.returns.tolist() == two.returns.tolist() == three.returns.tolist()
        assert one.actions.tolist() == two.actions.tolist() == three.actions.tolist()


@pytest.mark.parametrize("task", pomp.TASKS, ids=lambda task: task.name)
def test_ten_starts_or_one_where_all_are_the_same(task):
    setting = task.configure()
    starts = list(task.starts(setting) or ()) if task.starts else []
    is_certain = len(starts) == 1 and not task.draws(setting)
    assert configure("pomp", "paper", task.name).score.starts == (1 if is_certain else 10)


@pytest.mark.parametrize("task", pomp.TASKS, ids=lambda task: task.name)
def test_the_shortest_list_is_ten_and_farmers_in_the_code_a_square(task):
    assert configure("pomp", "paper", task.name).mode.least_list == "ten"
    published = "square" if task.name == "Farmer" else "ten"
    assert configure("pomp", "code", task.name).mode.least_list == published


# ---------------------------------------------------------------- modes

TINY = {"proposer.iterations": 4, "proposer.population": 8, "score.starts": 3, "mode.modes": 2}
PLANS = {  # runs of every mode, and what their candidates should differ from
    "cem-xm": ([1, 1], "none"),
    "cem-diversity-topk": ([3], "runs"),
    "cem-diversity-xm": ([3, 3], "modes+runs"),
    "pomp": ([3, 3], "modes"),
}


@pytest.fixture(scope="module")
def embedding():
    return pomp.Embedding.load("paper")


def job_of(method, name="InfHarvester", seed=0, **changes):
    runs = {"mode.runs": PLANS[method][0][0]}
    return Job(
        setting_of(name), seed, configure(method, "paper", name, {**TINY, **runs, **changes})
    )


def ended_runs(embedding, *jobs):
    """Every run of the first job as it was when it ended, by its key."""
    batch, ended = Batch(jobs, embedding), []
    while not batch.is_finished:
        ended += batch.step()
    return {(one.key.mode, one.key.run): one for one in ended if one.job is jobs[0]}


@pytest.mark.parametrize("method", PLANS)
def test_runs_differ_from_what_they_should_and_the_best_are_modes(method, embedding):
    job = job_of(method)
    ended = ended_runs(embedding, job)
    keys = [(record.mode, record.run) for record in job.records]
    assert keys == [(mode, r) for mode, runs in enumerate(PLANS[method][0]) for r in range(runs)]
    plain = [record.score for record in job.records]
    for i, (mode, r) in enumerate(keys):
        chosen = [job.vectors[number] for number in job.modes[:mode]]
        earlier = [job.vectors[keys.index((mode, before))] for before in range(r)]
        plans = {"none": [], "runs": earlier, "modes": chosen, "modes+runs": chosen + earlier}
        expected = plans[PLANS[method][1]]
        others = ended[mode, r].others
        assert {row.tobytes() for row in others} == {row.tobytes() for row in expected}
        if job.records[i].diversified > 0:
            multiplier = diversity(job.vectors[i][None], others, 1.0)[0]
            assert job.records[i].diversified == pytest.approx(plain[i] * multiplier)
    if method == "cem-diversity-topk":
        assert sorted(plain[i] for i in job.modes) == sorted(plain)[-2:]
    else:
        for mode, number in enumerate(job.modes):
            own = [i for i, record in enumerate(job.records) if record.mode == mode]
            before = np.stack([job.vectors[i] for i in job.modes[:mode]] or [np.zeros(1)])
            worth = [
                plain[i] * (diversity(job.vectors[i][None], before, 1.0)[0] if mode else 1.0)
                for i in own
            ]
            assert number == own[int(np.argmax(worth))]


@pytest.mark.parametrize("name", ["InfHarvester", "DoorKey"])
def test_runs_are_what_the_procedure_makes_of_them(name, embedding):
    job = job_of("pomp", name, seed=4)
    ended = ended_runs(embedding, job)
    for record in job.records:
        key = RunKey(record.mode, record.run)
        one = ended[key.mode, key.run]
        modes = [job.records[i].program for i in job.modes[: key.mode]]
        arena = Arena(job.setting, job.config.score, np.uint64(0), modes, one.arena.lists)
        arena.starts = one.arena.starts
        run_again = CemRun(job.proposer_of(key), job.stream_of(key), embedding.latent)
        while not run_again.is_finished:
            latents = run_again.ask()
            texts = embedding.texts(latents)
            plain = tried(arena, texts).plain_scores()
            scores = plain * diversity(latents, one.others, 1.0)
            ties = np.array([list(text.ljust(400, "\0").encode()) for text in texts], np.uint8)
            run_again.tell(latents, scores, plain, ties)
        assert record.program == embedding.texts(run_again.best[None])[0]
        assert (record.diversified, record.score) == (run_again.best_score, run_again.best_plain)
        assert np.array_equal(job.vectors[job.records.index(record)], run_again.best)


def test_a_mode_has_its_lists_and_starts_for_all_its_runs(embedding):
    ended = ended_runs(embedding, job_of("pomp"))
    for mode in range(2):
        arenas = [ended[mode, r].arena for r in range(3)]
        assert arenas[0].lists.shape[0] == 2**mode
        assert all(np.array_equal(arena.lists, arenas[0].lists) for arena in arenas)
        assert len({arena.starts(0).stream.tobytes() for arena in arenas}) == 1
        assert (arenas[0].lengths >= 10).all()
    for method in ("cem-xm", "cem-diversity-xm", "cem-diversity-topk"):
        arena = job_of(method).arena_of(RunKey(0, 0))
        assert arena.lists.tolist() == [[CANDIDATE]]


def test_runs_with_shared_draws_begin_alike_and_others_do_not(embedding):
    shared = job_of("pomp", **{"mode.shared_draws": True})
    keys = [RunKey(mode, run) for mode in range(2) for run in range(3)]
    assert len({int(shared.stream_of(key)) for key in keys}) == 1
    assert len({int(job_of("pomp").stream_of(key)) for key in keys}) == len(keys)
    first = [
        CemRun(shared.proposer_of(key), shared.stream_of(key), embedding.latent).ask()
        for key in keys[:2]
    ]
    assert np.array_equal(*first)


def test_the_paper_chooses_with_the_multiplier_against_the_modes(embedding):
    job = job_of("pomp", seed=1, **{"mode.select": "diversified"})
    ended_runs(embedding, job)
    first, second = job.modes
    modes = job.vectors[first][None]
    worth = {
        i: record.score * diversity(job.vectors[i][None], modes, 1.0)[0]
        for i, record in enumerate(job.records)
        if record.mode == 1
    }
    assert worth[second] == max(worth.values())


def test_a_result_does_not_depend_on_what_is_searched_beside_it(embedding):
    alone, together = job_of("pomp"), job_of("pomp")
    ended_runs(embedding, alone)
    company = [job_of("pomp", seed=5), job_of("cem-xm", "Maze"), job_of("cem-diversity-xm")]
    ended_runs(embedding, together, *company)
    assert alone.result() == together.result()
    assert [r.to_json() for r in alone.records] == [r.to_json() for r in together.records]
