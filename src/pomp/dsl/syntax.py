"""The program tree: frozen values, compared, hashed and printed by their tokens.

A class's fields stand in the order of the names in its form (`pomp.dsl.grammar`). Programs may nest
a thousand levels deep, so nothing recurses: `tokens_of` walks with its own stack.
"""

from dataclasses import dataclass, fields

from pomp.dsl.grammar import FORMS, Form
from pomp.dsl.vocabulary import Action, Perception


class Node:
    """What every part of a program has: equality, hash and text by its tokens."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and tokens_of(self) == tokens_of(other)

    def __hash__(self) -> int:
        return hash(tuple(tokens_of(self)))

    def __str__(self) -> str:
        return " ".join(tokens_of(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Act(Node):
    """One action."""

    action: Action


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Perceive(Node):
    """A condition: one perception."""

    perception: Perception


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Not(Node):
    """A condition: the contrary of another."""

    condition: "Condition"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class While(Node):
    """Repeat the body as long as the condition holds."""

    condition: "Condition"
    body: "Body"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Repeat(Node):
    """Repeat the body a fixed number of times."""

    count: int
    body: "Body"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class If(Node):
    """Run the body if the condition holds."""

    condition: "Condition"
    body: "Body"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class IfElse(Node):
    """Run one of two bodies."""

    condition: "Condition"
    body: "Body"
    otherwise: "Body"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Program(Node):
    """A whole program."""

    body: "Body"


Condition = Perceive | Not
Statement = Act | While | Repeat | If | IfElse
Body = tuple[Statement, ...]

CLASSES: dict[str, type[Node]] = {
    **{"program": Program, "act": Act, "while": While, "repeat": Repeat},
    **{"if": If, "ifelse": IfElse, "perceive": Perceive, "not": Not},
}
FORM_OF: dict[type[Node], Form] = {node: FORMS[name] for name, node in CLASSES.items()}

ACTION_PROGRAMS = tuple(Program((Act(action),)) for action in Action)
"""The programs of one action each, in the order of the actions."""


def tokens_of(node: Node) -> list[str]:
    """Return the tokens of a tree, in the order of its text."""
    tokens: list[str] = []
    pending: list[object] = [node]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            tokens.append(item)
        elif isinstance(item, Action | Perception):
            tokens.append(item.token)
        elif isinstance(item, int):
            tokens.append(f"R={item}")
        elif isinstance(item, tuple):
            pending.extend(reversed(item))
        elif isinstance(item, Node):
            parts = iter([getattr(item, part.name) for part in fields(item)])  # type: ignore[arg-type]  # every Node is a dataclass
            symbols = FORM_OF[type(item)].symbols
            pending.extend(reversed([next(parts) if s[0] == "<" else s for s in symbols]))
        else:
            raise TypeError(f"expected a part of a program, got a {type(item).__name__}")
    return tokens
