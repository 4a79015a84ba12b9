"""No tests: the command that runs the trials, `python tests/fuzz/trials.py [TRIAL ...]`.

- `files`: files of every format, changed at random and read;
- `calls`: public calls, misused;
- `interrupts`: calls that compute for long, and Ctrl-C;
- `kills`: runs killed at random moments, resumed, and compared with whole ones.

It prints for each kind how often what came of a case, and the bad ones with what makes them again;
`--out` also writes a JSON file of each trial. The status is 1 if there were bad ones.
"""

import argparse
import json
import os
import platform
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent)]

from workers import BAD, GOOD, Workers  # noqa: E402 - found there

TRIALS = {"calls": "calls", "interrupts": "interrupts", "kills": "kills", "files": "damage"}
COUNTS = {"interrupts": 3, "kills": 20, "files": 2000}
OUTCOMES = (*GOOD, *BAD)
PACKAGES = ("numpy", "numba", "torch", "safetensors")


@dataclass
class Trial:
    """A trial as it was asked for.

    Attributes:
        name: which one.
        given: the command's options.
        minutes: those that are left.
    """

    name: str
    given: argparse.Namespace
    minutes: float

    def run(self):
        """Try everything; returns what came of it, as JSON."""
        began, module = time.monotonic(), import_module(TRIALS[self.name])
        kinds = [one for one in module.kinds(0) if _fits(one, self.given.only)]
        skipped = {kind: why for kind in kinds if (why := module.why_not(kind))}
        kinds = [kind for kind in kinds if kind not in skipped]
        with Workers(TRIALS[self.name], self.given.processes, 60 * self.minutes) as workers:
            unready = workers.prepare(kinds)
            cases = self._cases([kind for kind in kinds if kind not in unready])
            found = list(workers.try_all(cases, self.given.seed))
        return {
            "trial": self.name, "seed": self.given.seed, "processes": self.given.processes,
            "seconds": round(time.monotonic() - began), "made": _made(),
            "asked": len(cases), "tried": len(found), "skipped": skipped, "unready": unready,
            "kinds": {kind: _count(kind, found) for kind in kinds},
            "bad": [self._tell(told) for told in found if told.outcome in BAD],
        }  # fmt: skip

    def _cases(self, kinds):
        """Return kinds and cases in an order in which a limit of time cuts all kinds alike."""
        if self.name != "calls":
            last = self.given.first + (self.given.cases or COUNTS[self.name])
            return [(kind, case) for case in range(self.given.first, last) for kind in kinds]
        from misuses import KINDS

        cases = [(kind, case) for kind in kinds for case in KINDS[kind]]
        random.Random(self.given.seed).shuffle(cases)  # so that not all compile the same first
        return cases[: self.given.cases]

    def _tell(self, told):
        place = "" if self.name == "calls" else f" --cases 1 --first {told.case}"
        again = f"trials.py {self.name} --only '{told.kind}' --seed {self.given.seed}{place}"
        return {**told._asdict(), "text": told.text[-2000:], "again": again}


def _fits(kind, words):
    return not words or kind in words


def _count(kind, found):
    of_kind = [told for told in found if told.kind == kind]
    counts = Counter(told.outcome for told in of_kind)
    longest = max((told.seconds for told in of_kind), default=0.0)
    told = {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}
    return {"cases": len(of_kind), **told, "longest_seconds": round(longest, 2)}


def _made():
    versions = {name: metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "machine": platform.machine(), **versions}


def _show(told):
    print(f"{told['trial']}: {told['tried']} of {told['asked']} cases in {told['seconds']} s")
    print(f"{'':<18}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES))
    for kind, counts in told["kinds"].items():
        print(f"{kind:<18}" + "".join(f"{counts.get(outcome, 0):>11}" for outcome in OUTCOMES))
    for kind, why in (told["skipped"] | told["unready"]).items():
        print(f"{kind}: NOT TRIED, {why}")
    for bad in told["bad"]:
        print(f"{bad['kind']}, case {bad['case']} ({bad['how']}): {bad['outcome']}; {bad['again']}")
        print(bad["text"], flush=True)


def _main():
    asked = argparse.ArgumentParser(description="Try what strangers, callers and kills could do.")
    asked.add_argument("trials", nargs="*", choices=[*TRIALS, []], help="all, if none is named")
    asked.add_argument("--only", action="append", help="a kind; may be given several times")
    asked.add_argument("--cases", type=int, help="of each kind; all of calls")
    asked.add_argument("--first", type=int, default=0, help="the number of the first case")
    asked.add_argument("--seed", type=int, default=0, help="what cases are drawn with")
    asked.add_argument("--processes", type=int, default=os.cpu_count())
    asked.add_argument("--minutes", type=float, default=60.0, help="at most, for all trials")
    asked.add_argument("--out", type=Path, help="a folder for a JSON file of each trial")
    given = asked.parse_args()
    end, is_bad = time.monotonic() + 60 * given.minutes, False
    for name in given.trials or TRIALS:
        told = Trial(name, given, (end - time.monotonic()) / 60).run()
        _show(told)
        is_bad |= bool(told["bad"] or told["unready"])
        if given.out:
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(_main())
