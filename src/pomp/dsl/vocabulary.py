"""Actions, perceptions, tokens and their numbers."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property


class Action(IntEnum):
    """The five actions, in the order of their network indices (the token order differs)."""

    MOVE, TURN_LEFT, TURN_RIGHT, PICK_MARKER, PUT_MARKER = range(5)

    @property
    def token(self) -> str:
        """How a program spells it."""
        head, *tail = self.name.lower().split("_")
        return head + "".join(word.capitalize() for word in tail)


class Perception(IntEnum):
    """The five perceptions, in the order of the perception vector."""

    FRONT_IS_CLEAR, LEFT_IS_CLEAR, RIGHT_IS_CLEAR, MARKERS_PRESENT, NO_MARKERS_PRESENT = range(5)

    @property
    def token(self) -> str:
        """How a program spells it."""
        head, *tail = self.name.lower().split("_")
        return head + "".join(word.capitalize() for word in tail)


PAD = "<pad>"
ACTION_TOKENS = ("move", "turnRight", "turnLeft", "pickMarker", "putMarker")
PERCEPTION_TOKENS = tuple(perception.token for perception in Perception)
ACTION_OF_TOKEN = {action.token: action for action in Action}
PERCEPTION_OF_TOKEN = {perception.token: perception for perception in Perception}


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of one dialect; a token's id is its position.

    Two dialects are published: they differ in the numbers a REPEAT may carry and in nothing else.
    """

    name: str
    counts: tuple[int, ...]
    """The numbers `n` for which `R=n` is a token."""

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """All tokens in the order of their ids; padding, which also ends a program, is last."""
        return (
            *("DEF", "run", "m(", "m)"),
            *ACTION_TOKENS,
            *("r(", "r)"),
            *(f"R={count}" for count in self.counts),
            *("REPEAT", "c(", "c)", "i(", "i)", "e(", "e)", "IF", "IFELSE", "ELSE"),
            *PERCEPTION_TOKENS,
            *("not", "w(", "w)", "WHILE"),
            PAD,
        )

    @cached_property
    def id_of(self) -> dict[str, int]:
        """The id of each token."""
        return {token: index for index, token in enumerate(self.tokens)}

    @property
    def pad(self) -> int:
        """The id of padding."""
        return len(self.tokens) - 1

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of tokens that are all in the vocabulary."""
        return [self.id_of[token] for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the tokens of ids, up to the first padding."""
        tokens = []
        for index in ids:
            if index == self.pad:
                break
            tokens.append(self.tokens[index])
        return tokens


LEAPS = Vocabulary("leaps", counts=tuple(range(20)))
"""50 tokens and padding, with the ids of the LEAPS release; the dialect of POMP."""

HPRL = Vocabulary("hprl", counts=(2, 3, 4, 5))
"""34 tokens and padding, with the ids of the HPRL release."""
