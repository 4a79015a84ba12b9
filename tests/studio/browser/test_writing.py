"""Programs typed by hand, starts changed by clicking, and an episode in one file."""

import json
import urllib.request
from pathlib import Path

from seen import MACHINE, last_of, press, time_of, until, world_of

WRONG = "DEF run m( move oops m)"
RIGHT = "DEF run m( turnLeft turnLeft m)"
FILES = [
    ("This frame as PNG", "-5.png", b"\x89PNG"),
    ("This frame as SVG", "-5.svg", b"<svg"),
    ("The episode as one page", ".html", b"<!doctype html>"),
    ("The machine as text", ".machine", b"machine UpNDown"),
]


def write(page, text):
    """Replace the text in the editor."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def open_editor(watch):
    """Open the page where texts are written."""
    page = watch()
    page.get_by_role("link", name="Write", exact=True).click()
    page.wait_for_selector(".cm-content")
    return page


def test_a_broken_program_shows_its_error_where_it_is_and_a_right_one_runs(watch):
    page = open_editor(watch)
    write(page, WRONG)
    page.wait_for_selector(".verdict.bad")
    said = page.inner_text("[data-verdict]")
    assert said.startswith("Line 1, column 17:")
    assert "oops" in said
    assert page.inner_text(".cm-lintRange-error") == "oops"
    with page.expect_response("**/api/episode*"):
        write(page, RIGHT)
    until(page, "document.querySelectorAll('.program li').length == 4")
    press(page, "Step")
    assert "turnLeft" in page.inner_text("li.now")
    assert page.locator(".verdict.bad").count() == 0


def test_a_file_is_opened_in_the_editor(watch, tmp_path):
    page = open_editor(watch)
    file = tmp_path / "one.karel"
    file.write_text(RIGHT)
    page.set_input_files("input[type=file]", file)
    until(page, "document.querySelectorAll('.program li').length == 4")
    assert page.inner_text(".cm-content") == RIGHT


def test_a_machine_can_be_edited_and_kept_in_the_address(watch, open_page):
    page = open_editor(watch)
    write(page, RIGHT)
    until(page, "location.search.includes('text=')")
    again = open_page(page.url)
    again.wait_for_selector("[data-t]")
    assert again.inner_text(".cm-content") == RIGHT


def middle_of(page, row, col):
    """Where a cell of a world of 8 by 8 is on the page."""
    box = page.locator(".world canvas").bounding_box()
    side = min(box["width"], box["height"])
    left, top = box["x"] + (box["width"] - side) / 2, box["y"] + (box["height"] - side) / 2
    return left + side * (col + 0.5) / 8, top + side * (row + 0.5) / 8


def test_clicks_change_markers_and_walls_but_not_the_ring(studio, watch):
    page = open_editor(watch)
    with urllib.request.urlopen(f"{studio}/api/episode?machine={MACHINE}") as answer:
        sent = json.load(answer)
    page.route("**/api/episode", lambda route: route.fulfill(json=sent))
    press(page, "Change the start")
    for tool, cell in (("Marker", 1), ("Wall", 16), ("Wall", 0)):
        press(page, tool)
        with page.expect_request("**/api/episode") as asked:
            page.mouse.click(*middle_of(page, 1, 1))
        assert asked.value.post_data_json["world"]["cells"][9] == cell
    with page.expect_request("**/api/episode") as asked:
        page.mouse.click(*middle_of(page, 0, 1))  # the ring: nothing is asked for
        page.mouse.click(*middle_of(page, 1, 2))
    world = asked.value.post_data_json["world"]["cells"]
    assert world[1] == sent["world"]["cells"][1]
    assert world[10] == 16


def test_the_world_is_edited_by_clicking_and_by_keys(watch, open_page):
    page = open_editor(watch)
    before = world_of(page)
    press(page, "Change the start")
    press(page, "Agent")
    with page.expect_request("**/api/episode") as asked:
        page.mouse.click(*middle_of(page, 1, 1))
    assert asked.value.post_data_json["world"]["pose"] >> 2 == 9
    page.locator(".world canvas").focus()
    page.keyboard.press("ArrowRight")
    with page.expect_request("**/api/episode") as asked:
        page.keyboard.press("Enter")
    assert asked.value.post_data_json["world"]["pose"] >> 2 == 10
    page.wait_for_selector("main[aria-busy=false]")
    press(page, "Done")
    assert world_of(page) != before
    until(page, "location.search.includes('world=')")
    again = open_page(page.url)
    again.wait_for_selector("[data-t]")
    assert world_of(again) == world_of(page)


def test_what_is_shown_is_saved_as_files(watch):
    page = watch("t=5")
    for name, ending, begins in FILES:
        press(page, "Save")
        with page.expect_download() as started:
            press(page, name)
        assert started.value.suggested_filename.endswith(ending)
        assert Path(started.value.path()).read_bytes().startswith(begins)


def test_an_episode_in_one_file_plays_from_disk(studio, open_page, tmp_path):
    request = urllib.request.Request(
        f"{studio}/api/page",
        json.dumps({"machine": MACHINE, "seed": 7}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        content = answer.read()
    assert len(content) < 400_000
    file = tmp_path / "episode.html"
    file.write_bytes(content)
    page = open_page(file.as_uri(), offline=True)
    page.wait_for_selector("[data-t]")
    start = world_of(page)
    press(page, "Run to the end")
    assert time_of(page) == last_of(page) > 100
    press(page, "To the start")
    assert world_of(page) == start
    press(page, "Play")
    until(page, "Number(document.querySelector('[data-t]').textContent) > 2")
