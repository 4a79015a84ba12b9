"""Curves of runs as they grow, their machines, and the map of an embedding."""

import pytest
from seen import MACHINE, until

EVIL = "<b>evolve</b>"


def group(seeds, chains=4):
    """A group of runs as the server lists it, one run for each seed."""
    return {
        "name": EVIL, "kind": "evolve", "tasks": ["UpNDown"],
        "settings": {"evolve": {"chains": chains, "clean": True}},
        "runs": [
            {
                "path": f"up{seed}", "kind": "evolve", "seeds": [seed], "is_finished": False,
                "changed": 1.0, "machines": [{"name": MACHINE, "task": "UpNDown", "seed": seed}],
            }
            for seed in seeds
        ],
    }  # fmt: skip


def charts(mean):
    """A chart with a band whose mean ends at a value."""
    band = {"task": "UpNDown", "seeds": [0, 1], "at": [1, 2, 3], "mean": [0.1, 0.2, mean]}
    curve = {"task": "UpNDown", "run": "up0", "seed": 0, "at": [1, 2, 3], "returns": [0, 0.1, 0.2]}
    band |= {"low": [0.0, 0.1, 0.2], "high": [0.2, 0.3, 0.4]}
    chart = {"what": "return", "over": "steps", "is_log": False, "is_best": False}
    return {"charts": [chart | {"curves": [curve], "bands": [band]}], "changed": mean}


def test_curves_follow_a_run_and_its_machines_are_a_click_away(watch):
    page = watch()
    means = iter([0.25, 0.5])
    kept = []

    def answer(route):
        kept.append(next(means, 0.5))
        route.fulfill(json=charts(kept[-1]))

    page.route(
        "**/api/runs?*", lambda route: route.fulfill(json={"root": "x", "groups": [group([0, 1])]})
    )
    page.route("**/api/charts?*", answer)
    page.get_by_role("link", name="Runs", exact=True).click()
    page.wait_for_selector(".chart canvas")
    assert page.inner_text(".group b") == EVIL
    until(page, "document.querySelector('.plot').ariaLabel.includes('mean 0.5')")
    page.get_by_role("button", name="UpNDown, seed 1").click()
    page.wait_for_selector("[data-t]")
    assert page.locator("[data-choice=machine]").input_value() == MACHINE


def test_groups_of_one_name_are_told_apart_by_their_settings(watch):
    page = watch()
    page.route(
        "**/api/runs?*",
        lambda route: route.fulfill(json={"root": "x", "groups": [group([0]), group([1], 8)]}),
    )
    page.route("**/api/charts?*", lambda route: route.fulfill(json=charts(0.25)))
    page.get_by_role("link", name="Runs", exact=True).click()
    page.wait_for_selector(".chart canvas")
    told = page.locator(".group small:first-of-type").all_inner_texts()
    assert told[:2] == ["evolve.chains 4", "evolve.chains 8"]
    page.locator(".group").nth(1).click()
    page.wait_for_selector(".group:nth-of-type(2)[aria-current=true]")
    assert page.get_by_role("button", name="UpNDown, seed 1").is_visible()


@pytest.mark.slow
def test_a_click_on_the_map_of_an_embedding_decodes_a_program_that_runs(watch):
    pytest.importorskip("torch", reason="embeddings need pip install 'pomp-rl[learn]'")
    page = watch()
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("button", name="best").click()
    page.locator(".mapping canvas").click(position={"x": 200, "y": 200}, timeout=60_000)
    page.wait_for_selector("[data-decoded] pre", timeout=60_000)
    program = page.inner_text("[data-decoded] pre")
    assert program.startswith("DEF run m(")
    page.get_by_role("button", name="Run it").click()
    page.wait_for_selector(".cm-content")
    assert page.inner_text(".cm-content").split() == program.split()
