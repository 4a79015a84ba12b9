"""`pomp check`."""

import json
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from pomp.cli.inputs import read_program
from pomp.cli.output import say


@dataclass(frozen=True, kw_only=True)
class Check:
    """Check a program and print it, a line per statement."""

    program: Annotated[Positional[str], arg(metavar="PROGRAM|FILE|-")]
    """The program's text (it begins with DEF), a file (# begins a comment), or - for standard
    input."""
    vocabulary: Literal["leaps", "hprl"] = "leaps"
    """The dialect: which numbers REPEAT may carry."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print the program, or where it goes wrong."""
        from pomp.core.errors import ProgramSyntaxError
        from pomp.dsl.parser import parse
        from pomp.dsl.printer import print_program
        from pomp.dsl.vocabulary import HPRL, LEAPS

        vocabulary = HPRL if self.vocabulary == "hprl" else LEAPS
        text = read_program(self.program)
        try:
            program = parse(text, vocabulary)
        except ProgramSyntaxError as error:
            if self.json:
                found = {"position": error.position, "found": error.found}
                message = {"message": str(error).splitlines()[0], "expected": error.expected}
                say(json.dumps({"valid": False, **found, **message}))
            say(f"pomp: {error}", to_errors=True)
            return 2
        tokens = print_program(program).split()
        if self.json:
            ids = vocabulary.encode(tokens)
            say(json.dumps({"valid": True, "program": " ".join(tokens), "ids": ids}))
        else:
            say(print_program(program, indent=True))
            say(f"a program of {len(tokens)} tokens", to_errors=True)
        return 0
