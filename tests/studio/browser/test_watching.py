"""The page of `pomp studio`, watched in a real browser."""

import json
import urllib.request

import pytest
from PIL import Image
from seen import (
    MACHINE,
    SCREENSHOTS,
    heap_of,
    last_of,
    number_of,
    press,
    scrub,
    time_of,
    until,
    world_of,
)

LAST_SPEED = (
    "speed => { const s = document.querySelector('.speed input'); s.value = speed; "
    "s.dispatchEvent(new Event('input', { bubbles: true })); }"
)


def test_the_page_ends_with_the_numbers_of_the_episode(watch, studio):
    page = watch("seed=7")
    with urllib.request.urlopen(f"{studio}/api/episode?machine={MACHINE}&seed=7") as answer:
        sent = json.load(answer)
    press(page, "Run to the end")
    assert time_of(page) == last_of(page) == sent["frames"]
    assert number_of(page, "actions") == str(sent["actions"])
    assert number_of(page, "modes run") == str(sent["modes"])
    assert float(number_of(page, "return")) == pytest.approx(sent["return"], abs=5e-5)


def test_play_moves_and_pause_stops(watch):
    page = watch()
    press(page, "Play")
    until(page, "Number(document.querySelector('[data-t]').textContent) > 3")
    press(page, "Pause")
    shown = time_of(page)
    page.wait_for_timeout(400)
    assert time_of(page) == shown


def test_stepping_back_shows_the_same_world(watch):
    page = watch("t=40")
    before = world_of(page)
    press(page, "Step", times=3)
    assert time_of(page) == 43
    assert world_of(page) != before
    press(page, "Step back", times=3)
    assert time_of(page) == 40
    assert world_of(page) == before


def test_scrubbing_and_keys_lead_to_one_order(watch):
    page = watch()
    box = page.locator(".timeline").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    middle = time_of(page)
    assert abs(middle - last_of(page) / 2) <= 2
    shown = world_of(page)
    page.keyboard.press("Home")
    assert time_of(page) == 0
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "e", "End"):
        page.keyboard.press(key)
    assert time_of(page) == last_of(page)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    assert time_of(page) == middle
    assert world_of(page) == shown


def test_a_breakpoint_on_a_line_stops_there(watch):
    page = watch()
    press(page, "Step")
    line = page.locator("li.now")
    line.locator(".dot").click()
    text = line.inner_text()
    press(page, "Step")
    page.evaluate(LAST_SPEED, 100)
    press(page, "Play")
    until(page, "document.querySelector('.stopped').textContent != ''")
    assert page.locator("li.now").inner_text() == text
    assert page.locator("[aria-label=Play]").is_visible()
    assert 2 < time_of(page) < last_of(page)


def test_a_breakpoint_on_an_edge_stops_after_it(watch):
    page = watch("t=30")
    edge = page.locator(".edge.taken").get_attribute("data-edge")
    page.locator(".rule.fired .dot").click()
    assert page.locator(f"[data-edge='{edge}']").get_attribute("aria-pressed") == "true"
    press(page, "To the start")
    press(page, "Run to the end")
    assert 0 < time_of(page) <= 30
    assert page.locator(".edge.taken").get_attribute("data-edge") == edge


def test_a_click_on_a_line_goes_to_its_executions(watch):
    page = watch("t=100")
    line = page.locator("li.now .text")
    key = page.locator("li.now").evaluate("item => item.innerText")
    line.click()
    later = time_of(page)
    assert later > 100
    assert page.locator("li.now").evaluate("item => item.innerText") == key
    page.locator("li.now .text").click(modifiers=["Shift"])
    assert time_of(page) < later


def test_the_address_leads_to_the_same_frame(watch, open_page):
    page = watch("seed=3&t=20")
    assert time_of(page) == 20
    press(page, "Step")
    until(page, "location.search.includes('t=21')")
    again = open_page(page.url)
    again.wait_for_selector("[data-t]")
    assert time_of(again) == 21
    assert world_of(again) == world_of(page)
    assert again.locator("[data-choice=seed]").input_value() == "3"


def test_breakpoints_stay_on_another_start_but_not_in_another_machine(watch):
    page = watch()
    page.locator(".rule .dot").first.click()
    pressed = page.locator(".edge[aria-pressed=true]")
    for button, count in (("Next seed", 1), (None, 0)):
        with page.expect_response("**/api/episode"):
            if button:
                press(page, button)
            else:
                page.locator("[data-choice=machine]").select_option("zoo:UpNDown/network")
        page.wait_for_selector("main[aria-busy=false]")
        assert pressed.count() == count
    page.locator("[data-choice=machine]").select_option(MACHINE)
    until(page, "document.querySelectorAll('.edge').length > 3")
    assert pressed.count() == 0


def test_a_machine_of_many_modes_can_be_read(studio, open_page):
    page = open_page(studio)  # shows the machine with the most modes
    page.wait_for_selector("[data-t]")
    labels = page.locator(".node text")
    assert labels.count() >= 10
    boxes = [label.bounding_box() for label in labels.all()]
    assert min(box["height"] for box in boxes) > 9
    for number, one in enumerate(boxes):
        assert not any(_meet(one, other) for other in boxes[number + 1 :])


def _meet(one, other):
    """Whether two boxes have a point in common."""
    return all(
        one[begin] < other[begin] + other[length] and other[begin] < one[begin] + one[length]
        for begin, length in (("x", "width"), ("y", "height"))
    )


def test_a_short_name_is_that_of_a_listed_machine(studio, open_page):
    page = open_page(f"{studio}/?machine=zoo:UpNDown")
    page.wait_for_selector("[data-t]")
    assert page.locator("[data-choice=machine]").input_value().startswith("zoo:UpNDown/")


def test_two_machines_stand_side_by_side_on_one_start(watch):
    page = watch("task=UpNDown&other=zoo:StairClimber/text&t=5")
    page.wait_for_selector(".stage.pair")
    assert page.locator(".stage.pair > .panel").count() == 2
    assert page.locator(".timeline").count() == 2
    assert page.locator(".error").count() == 0


def test_names_of_files_are_text(watch):
    evil = "<img src=x onerror=alert(1)>"
    page = watch()

    def change(route):
        answer = route.fetch()
        sent = answer.json()
        sent["machine"]["modes"][0]["title"] = evil
        sent["words"] = [evil] * len(sent["words"])
        route.fulfill(response=answer, json=sent)

    page.route("**/api/episode*", change)
    press(page, "Next seed")
    page.wait_for_selector(f"h3:has-text('{evil}')")
    press(page, "Step")
    assert page.locator("img").count() == 0


def test_both_themes_and_a_phone_can_be_looked_at(watch):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page = watch("t=121", color_scheme="light")
    page.screenshot(path=SCREENSHOTS / "light.png")
    press(page, "Light or dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.screenshot(path=SCREENSHOTS / "dark.png")
    light, dark = (_brightness(SCREENSHOTS / name) for name in ("light.png", "dark.png"))
    assert light > 180 > 70 > dark
    page.reload()
    page.wait_for_selector("[data-t]")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    phone = watch("t=121", width=390, height=844, has_touch=True)
    phone.screenshot(path=SCREENSHOTS / "phone.png")
    assert phone.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def _brightness(path):
    """The mean of a picture's grey values."""
    histogram = Image.open(path).convert("L").histogram()
    return sum(grey * count for grey, count in enumerate(histogram)) / sum(histogram)


def test_nothing_jumps_while_it_plays(watch):
    page = watch("t=0")
    page.evaluate(
        "window.shifts = 0; new PerformanceObserver(list => { for (const one of list.getEntries())"
        " window.shifts += one.value; }).observe({ type: 'layout-shift' });"
    )
    page.evaluate(LAST_SPEED, 60)
    page.keyboard.press(" ")
    until(page, "Number(document.querySelector('[data-t]').textContent) > 60")
    assert page.evaluate("window.shifts") < 0.01


@pytest.mark.parametrize(
    ("scheme", "width", "height"),
    [
        pytest.param("light", 1440, 900, id="light"),
        pytest.param("dark", 1440, 900, id="dark"),
        pytest.param("light", 390, 844, id="phone"),
    ],
)
def test_axe_finds_nothing_serious(watch, scheme, width, height):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = watch("t=60", color_scheme=scheme, width=width, height=height)
    for view in ("Watch", "Write", "Runs"):
        page.get_by_role("link", name=view, exact=True).click()
        page.wait_for_selector({"Watch": ".graph", "Write": ".editor", "Runs": ".runs"}[view])
        found = axe.run(page).response["violations"]
        serious = [
            (view, one["id"], one["nodes"][0]["target"], one["nodes"][0]["failureSummary"])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert not serious


@pytest.mark.slow
def test_a_hundred_resets_leave_frames_and_memory_as_they_were(watch):
    page = watch()
    page.wait_for_selector("[data-episode]")
    for reset in range(110):
        if reset == 10:
            frame_before, heap_before = scrub(page, 40), heap_of(page)
        with page.expect_response("**/api/episode*"):
            press(page, "Next seed")
        page.wait_for_selector("main[aria-busy=false]")
    frame_after, heap_after = scrub(page, 40), heap_of(page)
    assert heap_after < heap_before + 2_000_000
    assert frame_after < 1.5 * frame_before + 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "least"),
    [
        ("zoo:Farmer/network&scale=16", 30_000),
        ("zoo:Farmer/text&scale=16&size=11x11", 48_000),
    ],
)
def test_a_long_episode_is_scrubbed_at_30_frames_a_second(open_page, studio, query, least):
    page = open_page(f"{studio}/?machine={query}")
    page.wait_for_selector("[data-t]", timeout=60_000)
    assert last_of(page) > least
    page.reload()
    page.wait_for_selector("[data-t]")
    assert page.evaluate("performance.now()") < 2500
    assert min(scrub(page, 90) for _ in range(3)) < 1000 / 30
