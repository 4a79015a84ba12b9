"""Build wheel and sdist, and use the wheel as someone who has nothing else of pomp would.

`make wheel` runs it: the wheel is installed without extras into an empty virtual environment, with
the versions of constraints.txt, and used from another folder. Nothing is downloaded but what that
needs. `python tools/check_wheel.py python3.12 python3.13` tries it with other interpreters.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "pomp"
DATA = (".json", ".pyi", ".safetensors", ".typed")
MOW = "DEF run m( WHILE c( frontIsClear c) w( pickMarker move w) pickMarker m)"
SMALL = [part for one in ("chains=4", "starts=2", "steps=10") for part in ("--set", one)]
QUICK = ["--preset", "paper", "--method", "q_learning:Q_LEARNING", "--set", "steps=6400"]
USES = (
    (["version"], 0, "torch       not installed"),
    (["run", "lawn:LAWN", MOW], 0, "mean return 1.0"),
    (["eval", "zoo:StairClimber"], 0, "transitions by rules"),
    (["evolve", "lawn:LAWN", "--rounds", "2", "--out", "run", *SMALL], 0, "return="),
    (["eval", "run/Lawn/seed0/machine", "--allow", "lawn"], 0, "exact return"),
    (["eval", "run/Lawn/seed0/machine"], 2, "--allow lawn"),
    (["train", "lawn:LAWN", "--modes", "mow.karel", "--out", "q", *QUICK], 0, "return=1.000"),
    (
        [
            "evolve",
            "lawn:LAWN",
            "--sensor",
            "sight:AHEAD",
            "--rounds",
            "1",
            "--out",
            "seen",
            *SMALL,
        ],
        0,
        "return=",
    ),
    (["search", "StairClimber", "--out", "no"], 2, "pip install 'pomp-rl[learn]'"),
)
"""Commands beside copies of the examples: their arguments, status, a part of the answer."""
SETTINGS = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Environment variables that are not passed on: without kept byte code each command takes long."""


def main(interpreters: list[str]) -> None:
    """Build once, then try the wheel with every interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        for number, interpreter in enumerate(interpreters):
            use(install(wheel, interpreter, Path(folder) / f"environment{number}"))
            print(f"{wheel.name} works with {interpreter}")


def build(folder: Path) -> Path:
    """Build into a folder, check what is in the files, and return the wheel."""
    options = ("--no-isolation", "--outdir", str(folder))
    _run([sys.executable, "-m", "build", *options, str(ROOT)])
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        _check(set(opened.namelist()), "pomp", wheel.name)
    with tarfile.open(sdist) as opened:
        top = sdist.name.removesuffix(".tar.gz")
        names = {str(Path(name).relative_to(top)) for name in opened.getnames()}
        _check(names - {"src"}, "src/pomp", sdist.name)
    return wheel


def _check(names: set[str], package: str, file: str) -> None:
    """Refuse a file without some module or data of the package, or with tests in it."""
    there = (path for path in PACKAGE.rglob("*") if path.suffix in (".py", *DATA))
    expected = {f"{package}/{path.relative_to(PACKAGE)}" for path in there}
    if missing := sorted(expected - names):
        sys.exit(f"{file} lacks {missing[0]}")
    if strange := sorted(name for name in names if "tests" in Path(name).parts):
        sys.exit(f"{file} holds {strange[0]}")


def install(wheel: Path, interpreter: str, folder: Path) -> Path:
    """Install a wheel into a new environment, and return the `pomp` command there."""
    _run([interpreter, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    _run([*pip, "--constraint", str(ROOT / "constraints.txt"), str(wheel)])
    return folder / "bin" / "pomp"


def use(pomp: Path) -> None:
    """Run every command in a new folder, and refuse an answer that is not the expected one."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("lawn", "q_learning", "sight"):
            shutil.copy(ROOT / "examples" / f"{name}.py", folder)
        (Path(folder) / "mow.karel").write_text(f"{MOW}\n")
        for arguments, status, part in USES:
            done = _call([str(pomp), *arguments], folder)
            if done.returncode != status or part not in done.stdout:
                told = f"status {done.returncode}\n{done.stdout}"
                sys.exit(f"pomp {' '.join(arguments)}: expected '{part}', {told}")


def _call(command: list[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command without the settings of a checkout; errors and output come together."""
    kept = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(command, cwd=folder, env=kept, check=False, **together)


def _run(command: list[str]) -> None:
    done = _call(command)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed\n{done.stdout}")


if __name__ == "__main__":
    main(sys.argv[1:] or [sys.executable])
