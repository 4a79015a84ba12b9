"""`pomp play`: what it draws fits, and the terminal comes back."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from dataclasses import replace

import pytest
import tyro
from stories import acting, machine, plain

from pomp.cli.frames import draw_screen, draw_strip, paint
from pomp.cli.play import Play, split_keys
from pomp.core.errors import ConfigError
from pomp.machine.evaluation import evaluate
from pomp.machine.text import print_machine, write_machine
from pomp.play.story import Acting, Moment, View
from processes import PATIENCE, run_pomp

# What is drawn.


def some_view(height=8, width=8, text=40):
    rows = ["#" * width, *["#" + "." * (width - 2) + "#"] * (height - 2), "#" * width]
    rows[2] = "#m3+" + "." * (width - 5) + "#"
    rows[5] = "#..e" + "." * (width - 5) + "#"
    return View(
        title="title", world=rows, under=2, heading="mode 1 of 3", focus=text // 2,
        text=[f"line {number}" for number in range(text)], tallest=text,
        status=("return", "step", "modes", ""), keys="q quit",
    )  # fmt: skip


def test_a_person_sees_the_reward_of_every_action():
    player = acting()
    player.press("p")
    player.press("a")
    shown = plain(draw_screen(player.view(), 79, 24))
    first, second = (moment.reward for moment in player.sandbox.moments[1:])
    assert first + second > 0
    assert any(line.endswith(f"  1  pickMarker {first:+.6f}") for line in shown)
    assert any(line.endswith(f">    2  turnLeft   {second:+.6f}") for line in shown)


def test_a_machine_says_what_it_would_do_where_a_person_stands():
    player = Acting(machine().configure(), 0, machine())
    shown = plain(draw_screen(player.view(), 79, 24))
    assert "from here the machine would begin with mode 1" in shown


@pytest.mark.parametrize("size", [(8, 8), (12, 12), (14, 22), (16, 16)])
def test_all_of_a_world_fits_into_80_by_24(size):
    view = some_view(*size)
    shown = plain(draw_screen(view, 79, 24))
    assert len(shown) <= 24
    for row, line in enumerate(view.world):
        drawn = shown[2 + row][: 2 * size[1]]
        assert drawn[::2].replace(">", "e") == line
    assert not any("too small" in line for line in shown)
    assert shown[-1] == "q quit"


def test_the_agent_stands_beside_the_markers_under_it():
    shown = plain(draw_screen(some_view(), 79, 24))
    assert shown[7].startswith("##. . >2. . . ##")
    assert shown[4].startswith("##m 3 + . . . ##")


def test_the_current_line_is_marked_and_in_sight():
    shown = plain(draw_screen(some_view(text=200), 79, 24))
    marked = [line[19:] for line in shown if "> line" in line]
    assert marked == ["> line 100"]
    assert sum(line.endswith("  ...") for line in shown) == 2


def test_the_layout_does_not_move_with_the_length_of_the_program():
    short, long = some_view(text=3), some_view(text=12)
    assert len(draw_screen(replace(short, tallest=12), 79, 24)) == len(draw_screen(long, 79, 24))


@pytest.mark.parametrize("columns", [1, 5, 20, 40, 79, 200])
@pytest.mark.parametrize("rows", [1, 2, 5, 9, 10, 16, 24, 60])
def test_a_frame_never_exceeds_its_terminal_and_says_what_is_missing(columns, rows):
    shown = plain(draw_screen(some_view(16, 16), columns, rows))
    assert len(shown) <= rows
    assert max(map(len, shown)) <= columns
    if rows > 1 and (columns < 40 or rows < 24):
        assert shown[1] == "too small to show all"[:columns]
    if rows > 9 and columns > 4:
        assert any(sign in line for line in shown[2:] for sign in (">", "e"))


def test_without_colours_nothing_but_the_cursor_is_controlled():
    lines = draw_screen(some_view(), 79, 24)
    assert set(re.findall(r"\x1b\[[0-9;]*[A-Za-z]", paint(lines, colours=False))) == {
        "\x1b[H", "\x1b[K", "\x1b[J",
    }  # fmt: skip
    assert "\x1b[1;32m>2\x1b[m" in paint(lines, colours=True)


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b" nQ", [" ", "n", "q"]),
        (b"\x1b[A\x1bOC\x1b[1;5D.", ["up", "right", "left", "."]),
        (b"\x1b", ["escape"]),
        (b"\x1b[3~\x1b[", []),
    ],
)
def test_keys_are_read_from_what_a_terminal_sends(sent, keys):
    assert split_keys(sent) == keys


# The command, and a real terminal.


def test_without_a_terminal_it_refuses_in_one_line(monkeypatch):
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115 - closed with the process
    with pytest.raises(ConfigError, match=r"^pomp play needs a terminal"):
        tyro.cli(Play, args=["Harvester", "--speed", "20", "--manual"]).run()


def test_the_command_imports_neither_torch_nor_numba():
    code = "import sys, pomp.cli.play; print({'torch', 'numba', 'termios'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"set()"


DRIVER = """
import sys, tyro
from pomp.cli.play import Play
sys.exit(tyro.cli(Play, args=sys.argv[1:]).run())
"""


class Tty:
    """A process in a terminal of its own."""

    def __init__(self, *arguments, code=DRIVER):
        self.master, self.slave = pty.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(self.slave)
        self.seen, self.place = "", 0
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=self.slave, stdout=self.slave, stderr=self.slave,
            start_new_session=True, env={**os.environ, "TERM": "xterm"},
            preexec_fn=lambda: __import__("fcntl").ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip

    def resize(self, rows, columns):
        termios.tcsetwinsize(self.slave, (rows, columns))

    def press(self, keys):
        os.write(self.master, keys)

    def frames(self):
        """The whole frames that came since the one last waited for, each with its end's place."""
        found = re.finditer(r"\x1b\[H(.*?)\x1b\[J", self.seen[self.place :], re.DOTALL)
        return [(self.place + one.end(), one[1]) for one in found]

    def wait_for(self, text):
        """Read until a frame holds the text; return the first that does."""
        end = time.monotonic() + PATIENCE
        while True:
            for place, coloured in self.frames():
                frame = re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", coloured)
                if re.search(text, frame):
                    self.place = place
                    return frame
            assert time.monotonic() < end, f"no {text!r} in:\n{self.seen[-2000:]}"
            assert self._read(0.2) or self.process.poll() is None, self.seen[-2000:]

    def _read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.seen += os.read(self.master, 65536).decode()
            return True
        return False

    def finish(self):
        """Wait for the end; the exit status. The terminal must be as it was."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self._read(0.1)
        while self._read(0.1):
            pass
        assert termios.tcgetattr(self.slave) == self.before
        os.close(self.master)
        os.close(self.slave)
        return self.process.poll()


@pytest.fixture
def folder(tmp_path):
    machine().save(tmp_path / "machine")
    return tmp_path / "machine"


def is_restored(seen):
    tail = seen[seen.rindex("\x1b[?1049h") :]
    return "\x1b[?25h" in tail and "\x1b[?1049l" in tail and "\x1b[H" not in tail.split("1049l")[1]


def test_keys_pause_step_and_quit_in_a_terminal_which_comes_back(folder):
    tty = Tty(folder, "--speed", 0.25)
    tty.wait_for("actions 0 .*")
    tty.press(b" ")
    paused = tty.wait_for("paused")
    acted = int(re.search(r"actions (\d+) ", paused)[1])  # usually none, at this speed
    tty.press(b".")
    assert "> " in tty.wait_for(rf"macro step \d+   actions {acted + 1} ")
    tty.press(b"\x1b[C")
    tty.wait_for(rf"actions {acted + 2} ")
    tty.resize(12, 40)
    assert "too small" in tty.wait_for("too small to show all")
    tty.resize(24, 80)
    tty.wait_for("q quit")
    tty.press(b"q")
    assert tty.finish() == 0
    assert is_restored(tty.seen)
    assert "Harvester x1, seed 0: return" in tty.seen.split("\x1b[?1049l")[1]


@pytest.mark.parametrize("how", ["escape", "interrupt", "terminate"])
def test_the_terminal_comes_back_however_it_ends(folder, how):
    tty = Tty(folder)
    tty.wait_for("running")
    if how == "terminate":
        tty.process.send_signal(signal.SIGTERM)
    else:
        tty.press(b"\x1b" if how == "escape" else b"\x03")
    status = tty.finish()
    assert status == {"escape": 0, "interrupt": -signal.SIGINT, "terminate": 143}[how]
    assert is_restored(tty.seen)


def test_the_terminal_comes_back_after_an_error():
    tty = Tty(code="from pomp.cli.play import *\nwith open_terminal() as t:\n    1 / 0")
    assert tty.finish() == 1
    assert is_restored(tty.seen)
    assert "ZeroDivisionError" in tty.seen.split("\x1b[?1049l")[1]


def test_a_person_acts_in_a_terminal():
    tty = Tty("Harvester", "--manual")
    tty.wait_for("you act")
    tty.press(b"\x1b[Dp")
    assert "turnLeft" in tty.wait_for("pickMarker")
    tty.press(b"q")
    assert tty.finish() == 0


def test_an_episode_can_be_printed_without_a_terminal(capsys, tmp_path):
    shown = replace(machine(), names=("sweep", "turn", "idle"))
    write_machine(shown, tmp_path / "sweep.machine")
    asked = {"machine": str(tmp_path / "sweep.machine"), "seed": 3, "print": True}
    assert Play(**asked).run() == 0
    printed = capsys.readouterr().out
    assert printed.startswith(print_machine(shown))
    *_, after, worth, blank, summary = printed.splitlines()
    assert (after.split()[:2], blank, "\x1b" in printed) == (["after", "0"], "", False)
    found = evaluate(shown, episodes=1, seed=3)
    assert f"return {found.mean:.6f}" in summary
    assert worth.endswith(f"return {found.mean:.2f}")
    with pytest.raises(ConfigError, match="does not go with --manual"):
        Play(**asked, manual=True).run()


def test_the_machine_that_make_demo_shows_needs_nothing_compiled(tmp_path):
    cache = {"POMP_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    status, printed, errors = run_pomp(
        "play", "UpNDown/text", "--print", env={**os.environ, **cache}
    )
    assert (status, errors) == (0, "")
    assert printed.startswith("machine UpNDown\n")
    assert printed.splitlines()[-1].startswith("UpNDown x1, seed 0: return 0.9")
    assert not list(tmp_path.rglob("*.nb*"))


@pytest.mark.parametrize("columns", [20, 79, 200])
def test_a_strip_has_the_first_and_the_last_moment_and_fits(columns):
    moments = [
        Moment(world=("####", "#>m#", "####"), under=0, actions=n, worth=n / 10, is_done=False)
        for n in range(10)
    ]
    lines = plain(draw_strip(moments, columns))
    assert max(map(len, lines)) <= columns
    assert lines[-2].split()[:2] == ["after", "0"]
    if columns > 40:
        assert lines[-2].split()[-2:] == ["after", "9"]
        assert lines[-1].rstrip().endswith("return 0.90")
