"""Read programs: from text to tokens to a tree, with errors that point at the token."""

from collections.abc import Sequence

from pomp.core.errors import ConfigError, ProgramSyntaxError
from pomp.dsl.grammar import BODY, END, FORMS, ILLEGAL, MAX_TOKENS, PROGRAM_FORM, Form, reader
from pomp.dsl.syntax import CLASSES, Act, Node, Perceive, Program
from pomp.dsl.vocabulary import ACTION_OF_TOKEN, LEAPS, PERCEPTION_OF_TOKEN, Vocabulary

MAX_CHARACTERS = 1 << 20
"""Longest text looked at; no program of `MAX_TOKENS` tokens comes near it."""

_FORM_OF_OPENER = {
    form.symbols[0]: form for form in FORMS.values() if not form.symbols[0].startswith("<")
}


def parse(text: str, vocabulary: Vocabulary = LEAPS) -> Program:
    """Read a program from its text.

    Args:
        text: tokens separated by blanks, as in `DEF run m( move m)`.
        vocabulary: the dialect.

    Returns:
        The tree; `print_program(parse(text))` gives `text` back, blanks normalised.

    Raises:
        ProgramSyntaxError: the text is not a program; carries the token's position.
    """
    return parse_tokens(tokenize(text), vocabulary)


def strip_comments(text: str) -> str:
    """Return the text of a file without its comments: `#` and what follows it in a line."""
    return "\n".join(line.partition("#")[0] for line in text.splitlines())


def split_programs(text: str) -> tuple[str, ...]:
    """Return the programs in a file's text, one per line; comments and empty lines are none."""
    lines = (line.strip() for line in strip_comments(text).splitlines())
    return tuple(line for line in lines if line)


def tokenize(text: str) -> list[str]:
    """Split a text at its blanks.

    Raises:
        ProgramSyntaxError: the text is empty or too long to be a program.
        ConfigError: it is no text.
    """
    if not isinstance(text, str):
        raise ConfigError(f"a program is given as text, got a {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        reason = f"a program text has at most {MAX_CHARACTERS} characters, got {len(text)}"
        raise ProgramSyntaxError([text[:20] + "..."], 0, (), reason)
    tokens = text.split()
    if len(tokens) > MAX_TOKENS:
        reason = f"a program has at most {MAX_TOKENS} tokens, got {len(tokens)}"
        raise ProgramSyntaxError(tokens, MAX_TOKENS, (), reason)
    return tokens


def check_tokens(tokens: Sequence[str], vocabulary: Vocabulary = LEAPS) -> None:
    """Make sure that tokens are a whole program.

    Raises:
        ProgramSyntaxError: they are not; carries the token's position.
    """
    automaton = reader(vocabulary)
    state, stack = automaton.start, list[int]()
    for position, token in enumerate(tokens):
        if state == END:
            reason = f"expected nothing after the program's last 'm)', got '{token}'"
            raise ProgramSyntaxError(tokens, position, (), reason)
        index = vocabulary.id_of.get(token, -1)
        if index < 0 or automaton.goto[state, index] == ILLEGAL:
            raise ProgramSyntaxError(tokens, position, automaton.expected(state))
        state = automaton.read(state, stack, index)
    if state != END:
        raise ProgramSyntaxError(tokens, len(tokens), automaton.expected(state))


def parse_tokens(tokens: Sequence[str], vocabulary: Vocabulary = LEAPS) -> Program:
    """Build the tree of a token sequence.

    Raises:
        ProgramSyntaxError: the tokens are not a program; carries the token's position.
    """
    check_tokens(tokens, vocabulary)
    frames = [_Frame(PROGRAM_FORM)]
    for token in tokens:
        frame = frames[-1]
        if token in _FORM_OF_OPENER and token != frame.symbol:
            frames.append(_Frame(_FORM_OF_OPENER[token]))
            frames[-1].advance()
        elif token in ACTION_OF_TOKEN:
            frame.take(Act(ACTION_OF_TOKEN[token]))
        elif token in PERCEPTION_OF_TOKEN:
            frame.take(Perceive(PERCEPTION_OF_TOKEN[token]))
        elif token.startswith("R="):
            frame.take(int(token[2:]))
        else:
            frame.close_body()
            frame.advance()
            if frame.is_complete and len(frames) > 1:
                frames[-2].take(frames.pop().node())
    program = frames[0].node()
    assert isinstance(program, Program)
    return program


class _Frame:
    """A form being read: the parts found so far and the next symbol."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.dot = 0
        self.parts: list[object] = []
        self.body: list[object] = []

    @property
    def symbol(self) -> str:
        """The next symbol."""
        return self.form.symbols[self.dot]

    @property
    def is_complete(self) -> bool:
        """Whether all symbols are read."""
        return self.dot == len(self.form.symbols)

    def advance(self) -> None:
        """Go on to the next symbol."""
        self.dot += 1

    def take(self, part: object) -> None:
        """Add a part that was read: a statement to the open body, another to the form's parts."""
        if self.symbol == BODY:
            self.body.append(part)
        else:
            self.parts.append(part)
            self.advance()

    def close_body(self) -> None:
        """End the body that is open, if one is."""
        if self.symbol == BODY:
            self.parts.append(tuple(self.body))
            self.body = []
            self.advance()

    def node(self) -> Node:
        """Return the tree of the form."""
        return CLASSES[self.form.name](*self.parts)
