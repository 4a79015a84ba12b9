"""Maps as text, worlds in batches, pictures."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from pomp.core.errors import ConfigError, OutputError, WorldError
from pomp.engine.starts import begin, draw_starts, enumerate_starts, take_up
from pomp.karel.render import draw_map, png_bytes, save_animation
from pomp.karel.world import Map, memory_of
from pomp.tasks.catalog import TASKS, find_task

ROOM = "#####\n#m.3#\n#.e.#\n#####"


def test_a_map_is_read_and_written_as_the_same_text():
    assert Map.from_text(ROOM).to_text() == ROOM


def test_a_map_is_what_cells_and_a_pose_look_like():
    world = Map.from_text(ROOM)
    pose = 4 * (world.row * world.grid.shape[1] + world.col) + world.facing
    flagged = world.grid.reshape(-1) | 64  # a bit of the task's own
    assert Map.from_cells(world.grid.shape, flagged, pose).to_text() == ROOM
    with pytest.raises(WorldError, match="as many cells as rows times columns, got 3x3 and 2"):
        Map.from_cells((3, 3), [0, 0], 0)


def test_the_letters_of_the_compass_are_agents_too():
    assert Map.from_text("###\n#W#\n###").to_text() == "###\n#<#\n###"


def test_an_agent_on_a_marker_is_a_small_letter():
    world = Map.from_text(ROOM)
    assert world.grid[world.row, world.col] == 1


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_start_is_read_back_from_its_text(task):
    worlds = draw_starts(task.configure(), 3, 0)
    for index in range(3):
        again = Map.from_text(worlds.to_text(index))
        assert (again.grid == worlds.map_of(index).grid).all()


@pytest.mark.parametrize("task", [task for task in TASKS if task.starts], ids=lambda t: t.name)
def test_a_drawn_start_is_taken_up_like_a_listed_one(task):
    setting = task.configure()
    drawn = draw_starts(setting, 8, 1)
    maps = [drawn.map_of(index) for index in range(8)]
    listed = begin(setting, maps, drawn.stream)
    assert (listed.cells == drawn.cells).all()
    assert (listed.memory == drawn.memory).all()
    known = {(start.map.to_text()) for start in enumerate_starts(setting)[1]}
    assert {start.to_text() for start in maps} <= known


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got no text"),
        ("###\n#>#\n####", "equally long"),
        ("###\n#.#\n###", "one agent, one of '.*', got 0"),
        ("####\n#><#\n####", "got 2"),
        ("###\n#>.\n###", "outer ring"),
        ("###\n#x#\n###", "unknown sign 'x' in a map at line 2, column 2"),
        ("##\n##", "3 to 128 rows"),
        ("\n".join(["#" * 200] * 3), "3 to 128 rows"),
    ],
)
def test_a_bad_map_is_refused_with_the_reason(text, message):
    with pytest.raises(WorldError, match=message):
        Map.from_text(text)


@pytest.mark.parametrize(
    ("name", "text", "needs"),
    [
        ("Maze", "#####\n#...#\n#>..#\n#####", "exactly one marker"),
        ("Harvester", "#####\n#...#\n#>..#\n#####", "at least one marker"),
        ("Snake", "########\n" + "#......#\n" * 5 + "#>.....#\n########", "two cells of two"),
    ],
)
def test_a_task_says_what_it_misses_in_a_map(name, text, needs):
    start = Map.from_text(text)
    setting = find_task(name).configure(size=start.grid.shape)
    with pytest.raises(WorldError, match=needs):
        begin(setting, [start], np.zeros(1, np.uint64))


def test_a_map_of_another_size_is_refused():
    with pytest.raises(WorldError, match="was set to 8x8, the map is 4x5"):
        begin(find_task("Seeder").configure(), [Map.from_text(ROOM)], np.zeros(1, np.uint64))


def test_taking_up_twice_changes_nothing():
    setting = find_task("TopOff").configure()
    worlds = draw_starts(setting, 4, 0)
    again = worlds.copy()
    memory_of(again).memory[:] = 0
    assert (take_up(setting, again).memory == worlds.memory).all()


def test_a_picture_shows_walls_markers_and_the_agent():
    picture = draw_map(Map.from_text(ROOM), cell=20)
    assert picture.size == (100, 80)
    assert picture.getpixel((10, 10)) == picture.getpixel((90, 70))  # walls
    marker, free = picture.getpixel((30, 30)), picture.getpixel((50, 30))
    assert marker != free
    assert len({marker, free, picture.getpixel((10, 10)), picture.getpixel((50, 55))}) == 4


def glyph(picture):
    """The dark part of a picture: what is written, as 24 by 16 numbers from 0 to 1."""
    dark = np.asarray(picture.convert("L")) < 100
    rows, cols = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
    part = Image.fromarray(255 * dark[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1].astype("u1"))
    return np.asarray(part.resize((16, 24)), float) / 255


def test_a_picture_says_how_many_markers_a_cell_has():
    """One marker is drawn without a number; of more, the number that is written is read again."""
    cells = [
        draw_map(Map.from_text(f"#####\n#.{cell}.#\n#>..#\n#####"), cell=96).crop(
            (192, 96, 288, 192)
        )
        for cell in "m23456789"
    ]
    assert (np.asarray(cells[0].convert("L")) >= 100).all()
    digits = []
    for number in range(2, 10):
        page = Image.new("RGB", (80, 80), "white")
        font = ImageFont.load_default(size=48)
        ImageDraw.Draw(page).text((20, 10), str(number), fill="black", font=font)
        digits.append(glyph(page))
    for number, cell in enumerate(cells[1:], start=2):
        unlike = [np.abs(glyph(cell) - digit).mean() for digit in digits]
        assert 2 + int(np.argmin(unlike)) == number


def test_the_agent_points_where_it_faces():
    north = draw_map(Map.from_text("#####\n#...#\n#.^.#\n#...#\n#####"))
    east = draw_map(Map.from_text("#####\n#...#\n#.>.#\n#...#\n#####"))
    turned = np.asarray(north.rotate(-90), int)
    assert np.abs(turned - np.asarray(east, int)).mean() < 0.1  # smooth edges differ by a shade
    assert np.abs(np.asarray(north, int) - np.asarray(east, int)).mean() > 0.5


def test_a_gif_that_cannot_be_written_is_refused(tmp_path):
    frame = Image.new("RGB", (8, 8))
    with pytest.raises(OutputError, match="cannot write"):
        save_animation([frame, frame], tmp_path / "missing" / "a.gif")


def test_an_animation_is_a_gif_or_an_mp4(tmp_path):
    frames = [draw_map(Map.from_text(ROOM), caption=f"{n}") for n in range(3)]
    save_animation(frames, tmp_path / "a.mp4")
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"
    with pytest.raises(ConfigError, match=r"a \.gif or \.mp4 file, got 'a\.png'"):
        save_animation(frames, tmp_path / "a.png")


def test_a_picture_file_has_the_asked_for_size():
    with Image.open(BytesIO(png_bytes(draw_map(Map.from_text(ROOM), cell=50)))) as picture:
        assert (picture.format, picture.size) == ("PNG", (250, 200))


def test_notebooks_show_pictures():
    worlds = draw_starts(find_task("Maze").configure(), 20, 0)
    assert worlds.map_of(0)._repr_png_().startswith(b"\x89PNG")
    assert worlds._repr_html_().count("<img") == 8


def test_a_batch_has_places_like_a_sequence():
    worlds = draw_starts(find_task("Maze").configure(), 5, 0)
    for number in (0, 3, np.int64(4), -1, -5):
        one = worlds[number]
        assert (len(one), one.to_text()) == (1, worlds.to_text(number))
    assert [one.to_text() for one in worlds] == [worlds.to_text(n) for n in range(5)]
    assert [one.to_text() for one in worlds[3:0:-2]] == [worlds.to_text(3), worlds.to_text(1)]
    assert len(worlds[5:]) == 0
    with pytest.raises(IndexError, match="world 5 was asked for, there are 5"):
        worlds[5]
    with pytest.raises(IndexError, match="world -6"):
        worlds[-6]
    with pytest.raises(TypeError, match="interpreted as an integer"):
        worlds["first"]


def test_a_world_taken_from_a_batch_is_a_copy():
    worlds = draw_starts(find_task("Maze").configure(), 2, 0)
    before = worlds.to_text(0)
    memory_of(worlds[0]).cells[:] = 0
    assert worlds.to_text(0) == before
    assert "1 world of Maze on cpu" in worlds[0]._repr_html_()
