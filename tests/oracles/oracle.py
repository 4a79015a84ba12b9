"""The language once more, from the specification alone: parser, mask and interpreter, all slow."""

ACTIONS = ("move", "turnLeft", "turnRight", "pickMarker", "putMarker")
PERCEPTIONS = ("frontIsClear", "leftIsClear", "rightIsClear", "markersPresent", "noMarkersPresent")
CLOSER_OF = {"m(": "m)", "c(": "c)", "r(": "r)", "i(": "i)", "e(": "e)", "w(": "w)"}
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))


# ---------------------------------------------------------------- parsing


class NotAProgramError(Exception):
    """The tokens are not a program."""


class Reader:
    """Recursive descent over tokens; a statement is a tuple, a body a list."""

    def __init__(self, tokens, counts=range(20)):
        self.tokens = list(tokens)
        self.counts = {f"R={count}": count for count in counts}
        self.place = 0

    def program(self):
        for token in ("DEF", "run"):
            self.take(token)
        body = self.body("m(")
        if self.place != len(self.tokens):
            raise NotAProgramError
        return body

    def next(self):
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def take(self, token):
        if self.next() != token:
            raise NotAProgramError
        self.place += 1

    def body(self, opener):
        self.take(opener)
        statements = [self.statement()]
        while self.next() != CLOSER_OF[opener]:
            statements.append(self.statement())
        self.take(CLOSER_OF[opener])
        return statements

    def statement(self):
        token = self.next()
        self.place += 1
        if token in ACTIONS:
            return ("act", ACTIONS.index(token))
        if token == "REPEAT":
            count = self.next()
            if count not in self.counts:
                raise NotAProgramError
            self.place += 1
            return ("repeat", self.counts[count], self.body("r("))
        if token == "WHILE":
            return ("while", self.condition(), self.body("w("))
        if token == "IF":
            return ("if", self.condition(), self.body("i("), None)
        if token == "IFELSE":
            condition, body = self.condition(), self.body("i(")
            self.take("ELSE")
            return ("if", condition, body, self.body("e("))
        raise NotAProgramError

    def condition(self):
        """The perception's number and whether it is negated."""
        self.take("c(")
        token = self.next()
        if token == "not":
            self.place += 1
            perception, negated = self.condition()
            negated = not negated
        elif token in PERCEPTIONS:
            self.place += 1
            perception, negated = PERCEPTIONS.index(token), False
        else:
            raise NotAProgramError
        self.take("c)")
        return perception, negated


def is_program(tokens, counts=range(20)):
    """Whether the tokens are a program."""
    try:
        Reader(tokens, counts).program()
    except NotAProgramError:
        return False
    return True


# ---------------------------------------------------------------- the mask of five states


class Mask:
    """The push-down machine of the published decoder; `legal` is what may come next."""

    def __init__(self, counts):
        self.counts = tuple(f"R={count}" for count in counts)
        self.state, self.must = "MUST", "DEF"
        self.closers, self.needs_else = [], []
        self.open_conditions = 0
        self.pending = ""

    @property
    def legal(self):
        if self.state == "MUST":
            return {self.must}
        if self.state == "ACT":
            return {*ACTIONS, "WHILE", "IF", "IFELSE", "REPEAT", self.closers[-1]}
        if self.state == "NUM":
            return set(self.counts)
        if self.state == "BOOL":
            return {*PERCEPTIONS, "not"}
        return {self.pending}

    def read(self, token):
        assert token in self.legal
        if token in CLOSER_OF:
            self.closers.append(CLOSER_OF[token])
        elif token in CLOSER_OF.values():
            assert self.closers.pop() == token
        {
            "MUST": self._read_must,
            "ACT": self._read_act,
            "NUM": lambda _: self._go("MUST", "r("),
            "BOOL": lambda token: self._go("MUST", "c(" if token == "not" else "c)"),
            "OPENBODY": lambda _: self._go("ACT"),
        }[self.state](token)

    def _go(self, state, must=""):
        self.state, self.must = state, must

    def _read_must(self, token):
        if token == "c(":
            self.open_conditions += 1
            self._go("BOOL")
        elif token == "c)":
            self.open_conditions -= 1
            if self.open_conditions == 0:
                self._go("OPENBODY")
        elif token != "<pad>":
            follows = {"DEF": "run", "run": "m(", "ELSE": "e("}
            self._go("MUST", follows[token]) if token in follows else self._go("ACT")

    def _read_act(self, token):
        if token == "WHILE":
            self.pending = "w("
            self._go("MUST", "c(")
        elif token in ("IF", "IFELSE"):
            self.pending = "i("
            self.needs_else.append(token == "IFELSE")
            self._go("MUST", "c(")
        elif token == "REPEAT":
            self._go("NUM")
        elif token == "i)" and self.needs_else.pop():
            self._go("MUST", "ELSE")
        elif token == "m)":
            self._go("MUST", "<pad>")


# ---------------------------------------------------------------- running


class OutOfBudgetError(Exception):
    """The program is stopped."""


class Plain:
    """A world of walls and marker counts (cap 9) under the rules every task shares."""

    def __init__(self, rows, pose):
        self.rows = [list(row) for row in rows]  # a count, or None for a wall
        self.row, self.col, self.facing = pose
        self.trace = []

    def ahead(self, turn=0):
        step = STEPS[(self.facing + turn) % 4]
        return self.row + step[0], self.col + step[1]

    def perceive(self, perception):
        if perception < 3:
            row, col = self.ahead((0, -1, 1)[perception])
            return self.rows[row][col] is not None
        return (self.rows[self.row][self.col] > 0) == (perception == 3)

    def act(self, action):
        self.trace.append(action)
        count = self.rows[self.row][self.col]
        if action == 0:
            row, col = self.ahead()
            if self.rows[row][col] is None:
                self.facing = (self.facing + 2) % 4
            else:
                self.row, self.col = row, col
        elif action < 3:
            self.facing = (self.facing + (-1 if action == 1 else 1)) % 4
        elif action == 3:
            self.rows[self.row][self.col] = max(count - 1, 0)
        else:
            self.rows[self.row][self.col] = min(count + 1, 9)


class UnderCalls:
    """The recursive executor with its counter of calls."""

    def __init__(self, world, limit):
        self.world, self.limit, self.calls = world, limit, 0

    def run(self, body):
        """Whether the program ran to its end."""
        try:
            self.calls += 1
            self.block(body)
        except OutOfBudgetError:
            return False
        return True

    def check(self):
        if self.calls > self.limit:
            raise OutOfBudgetError

    def pay(self):
        self.check()
        self.calls += 1

    def block(self, statements):
        """Sequences are nested to the left: all pairs are entered before the first statement."""
        for _ in statements[1:]:
            self.pay()  # the pair is a statement
            self.pay()  # and a pair
        for statement in statements:
            self.statement(statement)

    def statement(self, statement):
        self.pay()
        kind, *parts = statement
        if kind == "act":
            self.check()
            self.world.act(*parts)
        else:
            self.pay()
            getattr(self, kind + "_")(*parts)

    def holds(self, condition):
        self.check()
        perception, negated = condition
        return self.world.perceive(perception) != negated

    def if_(self, condition, body, otherwise):
        if self.holds(condition):
            self.block(body)
        elif otherwise is not None:
            self.block(otherwise)

    def while_(self, condition, body):
        while self.holds(condition):
            self.block(body)

    def repeat_(self, count, body):
        for _ in range(count):
            self.block(body)


class UnderActions(UnderCalls):
    """So many actions; a WHILE round without any stops, a REPEAT round without any is the last."""

    def check(self):
        pass

    def pay(self):
        pass

    def statement(self, statement):
        if statement[0] == "act" and len(self.world.trace) == self.limit:
            raise OutOfBudgetError
        super().statement(statement)

    def while_(self, condition, body):
        while self.holds(condition):
            before = len(self.world.trace)
            self.block(body)
            if len(self.world.trace) == before:
                raise OutOfBudgetError

    def repeat_(self, count, body):
        for _ in range(count):
            before = len(self.world.trace)
            self.block(body)
            if len(self.world.trace) == before:
                break
