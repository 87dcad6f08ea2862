r"""Does a text contain something that looks like this? Regular expressions in linear time.

    .  \d \D \w \W \s \S  [a-z_] [^,]      one character         \n \t \r \. \\    that character
    a* a+ a? a{3} a{2,} a{2,5}             repeated              a|b  (a)  (?:a)   choice, group
    ^ $ \A \Z \b \B                        a place, as in Python: `$` also stands before a last newline

Python's `re` searches by trying one way after the other, and for a pattern such as `(a+)+$` the number of ways
doubles with every character: whoever may write a pattern, or the text it meets, could stop the engine. Here a text
is read once, from the left; after every character we know all the places of the pattern where a match may have got
to. The work is at most characters times places, and both are limited before it begins.

A set of places is worked out once for every character it meets and then remembered, so that an ordinary search is
one look into a dictionary for each character. What needs memory of what was matched (`\1`, `(?=`) does not exist
in this world and is refused.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

MAX_PATTERN: Final = 1_000
MAX_PLACES: Final = 1_000
MAX_GROUP_DEPTH: Final = 50
# Characters times places: about a second for the worst of patterns, milliseconds as a rule.
MAX_WORK: Final = 5_000_000
# Places in the sets that are remembered for one pattern; then all is forgotten and begun anew.
_MAX_REMEMBERED: Final = 20_000


class InvalidPattern(Exception):
    """Not a pattern: what is wrong, as the second half of a sentence, and what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


# --- the pattern as a tree --------------------------------------------------------------------------

Accepts: TypeAlias = Callable[[str], bool]


class _One(NamedTuple):
    """One character of a kind."""

    accepts: Accepts


class _At(NamedTuple):
    """A place in the text, without a character: `^`, `$`, `b` or `B`, `A` or `Z`."""

    anchor: str


class _Sequence(NamedTuple):
    parts: "tuple[_Part, ...]"


class _Choice(NamedTuple):
    parts: "tuple[_Part, ...]"


class _Repeat(NamedTuple):
    part: "_Part"
    least: int
    most: int | None


_Part: TypeAlias = _One | _At | _Sequence | _Choice | _Repeat


def _any_but_newline(character: str) -> bool:
    return character != "\n"


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _not(accepts: Accepts) -> Accepts:
    return lambda character: not accepts(character)


_SHORTHANDS: Final[dict[str, Accepts]] = {
    "d": str.isdecimal,
    "w": _is_word,
    "s": str.isspace,
    "D": _not(str.isdecimal),
    "W": _not(_is_word),
    "S": _not(str.isspace),
}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_REPEATS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class _Reader:
    """Recursive descent; the depth of groups is limited, so recursion is safe."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def whole(self) -> _Part:
        part = self._choice()
        if self._at < len(self._pattern):
            raise InvalidPattern("a ')' has no '('", "Write \\) to mean the character itself.")
        return part

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        character = self._peek()
        self._at += 1
        return character

    def _choice(self) -> _Part:
        parts = [self._sequence()]
        while self._peek() == "|":
            self._take()
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else _Choice(tuple(parts))

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._single()))
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _repeated(self, part: _Part) -> _Part:
        bounds = self._bounds()
        if bounds is None:
            return part
        if self._peek() == "?":
            # As few as possible or as many: whether there is a match at all is the same.
            self._take()
        again = self._at
        if self._bounds() is not None:
            raise InvalidPattern(
                f"'{self._pattern[again : self._at]}' repeats a repetition",
                "Put what is repeated in brackets.",
            )
        if type(part) is _At:
            raise InvalidPattern("a place in the text is repeated", "Repeat what stands before or after it.")
        return _Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        character = self._peek()
        if character in _REPEATS:
            self._take()
            return _REPEATS[character]
        if character != "{":
            return None
        end = self._pattern.find("}", self._at)
        least, comma, most = self._pattern[self._at + 1 : max(end, 0)].partition(",")
        if not _is_count(least) or not (most == "" or _is_count(most)):
            raise InvalidPattern(
                "'{' begins no repetition", "Write {2}, {2,} or {2,5}, or \\{ to mean the character."
            )
        self._at = end + 1
        bounds = int(least), (int(most) if most else None) if comma else int(least)
        if bounds[1] is not None and bounds[1] < bounds[0]:
            raise InvalidPattern(
                f"'{{{least},{most}}}' has the larger number first", f"Write {{{most},{least}}}."
            )
        return bounds

    def _single(self) -> _Part:
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return _One(self._class())
        if character == "\\":
            return self._escaped()
        if character == ".":
            return _One(_any_but_newline)
        if character in ("^", "$"):
            return _At(character)
        if character in _REPEATS or character == "{":
            raise InvalidPattern(
                f"'{character}' repeats nothing", f"Write \\{character} to mean the character itself."
            )
        return _One(character.__eq__)

    def _group(self) -> _Part:
        if self._peek() == "?":
            if not self._pattern.startswith("?:", self._at):
                raise InvalidPattern(
                    f"'({self._pattern[self._at : self._at + 2]}' is not supported",
                    "There are (a) and (?:a); for any case write lower(...) around the text.",
                )
            self._at += 2
        self._depth += 1
        if self._depth > MAX_GROUP_DEPTH:
            raise InvalidPattern(f"its groups are nested more than {MAX_GROUP_DEPTH} deep")
        part = self._choice()
        self._depth -= 1
        if self._take() != ")":
            raise InvalidPattern(
                "a '(' is never closed", "Write ) where it ends, or \\( to mean the character itself."
            )
        # A group of its own even if it holds one thing: `(^)*` is a repeated group, `^*` is a slip.
        return _Sequence((part,))

    def _escaped(self) -> _Part:
        character = self._take()
        if character in _SHORTHANDS:
            return _One(_SHORTHANDS[character])
        if character and character in "AZbB":
            return _At(character)
        return _One(self._escaped_character(character).__eq__)

    def _escaped_character(self, character: str) -> str:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "":
            raise InvalidPattern("it ends in a backslash", "Write \\\\ to mean a backslash.")
        if character.isalnum():
            raise InvalidPattern(
                f"'\\{character}' is not supported", "Supported are \\d \\w \\s \\b \\n \\t \\r."
            )
        return character

    def _class(self) -> Accepts:
        negated = self._peek() == "^"
        if negated:
            self._take()
        singles: set[str] = set()
        ranges: list[tuple[str, str]] = []
        kinds: list[Accepts] = []
        first = True
        while self._peek() != "]" or first:
            first = False
            low = self._class_member()
            if not isinstance(low, str):
                kinds.append(low)
            elif self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._take()
                high = self._class_member()
                if not isinstance(high, str) or high < low:
                    raise InvalidPattern(
                        "a range in '[...]' goes backwards or ends in no character", "Write [a-z]."
                    )
                ranges.append((low, high))
            else:
                singles.add(low)
        self._take()
        accepts = _class_of(frozenset(singles), tuple(ranges), tuple(kinds))
        return _not(accepts) if negated else accepts

    def _class_member(self) -> str | Accepts:
        character = self._take()
        if character == "":
            raise InvalidPattern(
                "a '[' is never closed", "Write ] where it ends, or \\[ to mean the character itself."
            )
        if character != "\\":
            return character
        escaped = self._take()
        return _SHORTHANDS[escaped] if escaped in _SHORTHANDS else self._escaped_character(escaped)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


def _class_of(
    singles: frozenset[str], ranges: tuple[tuple[str, str], ...], kinds: tuple[Accepts, ...]
) -> Accepts:
    if not ranges and not kinds:
        return singles.__contains__

    def accepts(character: str) -> bool:
        return (
            character in singles
            or any(low <= character <= high for low, high in ranges)
            or any(kind(character) for kind in kinds)
        )

    return accepts


# --- the pattern as places, and the ways between them -----------------------------------------------


class _Places:
    """Place 0 is the end. From every other place one goes on by reading a character, or freely.

    Built from the back: a part is made knowing the place that follows it.
    """

    def __init__(self, part: _Part) -> None:
        if _size(part) > MAX_PLACES:
            raise InvalidPattern(
                f"it has more than {MAX_PLACES:,} places once its repetitions are written out",
                "Repeat less, or use * and +.",
            )
        self.reads: list[tuple[Accepts, int] | None] = [None]
        self.free: list[list[int]] = [[]]
        # The anchor that has to hold for the free ways of a place to be taken.
        self.anchors: list[str] = [""]
        self.start = self._built(part, 0)

    def _place(self, reads: tuple[Accepts, int] | None, free: list[int], anchor: str = "") -> int:
        self.reads.append(reads)
        self.free.append(free)
        self.anchors.append(anchor)
        return len(self.reads) - 1

    def _built(self, part: _Part, after: int) -> int:
        match part:
            case _One(accepts):
                return self._place((accepts, after), [])
            case _At(anchor):
                return self._place(None, [after], anchor)
            case _Sequence(parts):
                for one in reversed(parts):
                    after = self._built(one, after)
                return after
            case _Choice(parts):
                return self._place(None, [self._built(one, after) for one in parts])
            case _Repeat(part=repeated, least=least, most=most):
                return self._repeated(repeated, least, most, after)

    def _repeated(self, part: _Part, least: int, most: int | None, after: int) -> int:
        if most is None:
            again = self._place(None, [after])
            self.free[again].append(self._built(part, again))
            after = again
        else:
            end = after
            for _ in range(most - least):
                after = self._place(None, [self._built(part, after), end])
        for _ in range(least):
            after = self._built(part, after)
        return after


def _size(part: _Part) -> int:
    """How many places a part will need."""
    match part:
        case _One() | _At():
            return 1
        case _Sequence(parts):
            return sum(map(_size, parts))
        case _Choice(parts):
            return 1 + sum(map(_size, parts))
        case _Repeat(part=repeated, least=least, most=most):
            if most is None:
                return 1 + _size(repeated) * (least + 1)
            return _size(repeated) * most + most - least


# --- searching --------------------------------------------------------------------------------------

# What comes next in the text, if it is not simply a character: its end, or the newline just before it.
_END: Final = ""
_LAST_NEWLINE: Final = "\n$"


class _State:
    """The places that may have been reached, and what stood before; `after` remembers where each character led."""

    __slots__ = ("after", "at_start", "places", "word_before")

    def __init__(self, places: frozenset[int], at_start: bool, word_before: bool) -> None:
        self.places = places
        self.at_start = at_start
        self.word_before = word_before
        self.after: dict[str, _State] = {}


_MATCHED: Final = _State(frozenset(), False, False)


class Pattern:
    """A pattern that texts can be searched for."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise InvalidPattern(f"it has more than {MAX_PATTERN:,} characters", "Use several shorter ones.")
        self._places = _Places(_Reader(pattern).whole())
        self._forget()

    @property
    def size(self) -> int:
        """How many places it has: what one character of a text can cost at most."""
        return len(self._places.reads)

    def found_in(self, text: str) -> bool:
        """Whether some part of the text matches. The caller has limited `len(text) * size`."""
        state = self._first
        end = len(text) - 1 if text.endswith("\n") else len(text)
        for character in text[:end] if end < len(text) else text:
            following = state.after.get(character)
            if following is None:
                following = self._follow(state, character)
            state = following
            if state is _MATCHED:
                return True
        for symbol in (_LAST_NEWLINE, _END) if end < len(text) else (_END,):
            state = state.after.get(symbol) or self._follow(state, symbol)
            if state is _MATCHED:
                return True
        return False

    def _forget(self) -> None:
        self._states: dict[tuple[frozenset[int], bool, bool], _State] = {}
        self._remembered = 0
        self._first = self._state(frozenset(), True, False)

    def _state(self, places: frozenset[int], at_start: bool, word_before: bool) -> _State:
        key = (places, at_start, word_before)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(*key)
        return state

    def _follow(self, state: _State, symbol: str) -> _State:
        """Where `symbol` leads from `state`; worked out once and then remembered."""
        character = symbol[:1]
        reached = self._reached(state, symbol)
        self._remembered += 1 + len(reached)
        if self._remembered > _MAX_REMEMBERED:
            self._forget()
        if 0 in reached:
            following = _MATCHED
        else:
            following = self._state(frozenset(reached), False, bool(character) and _is_word(character))
        state.after[symbol] = following
        return following

    def _reached(self, state: _State, symbol: str) -> set[int]:
        """The places behind everything that can be read now; or 0, the end, if one gets there without reading."""
        reads, free, anchors = self._places.reads, self._places.free, self._places.anchors
        character = symbol[:1]
        reached: set[int] = set()
        # A match may begin anywhere, so its first place always counts.
        seen = {*state.places, self._places.start}
        todo = list(seen)
        while todo:
            place = todo.pop()
            if place == 0:
                return {0}
            reading = reads[place]
            if reading is not None:
                if character and reading[0](character):
                    reached.add(reading[1])
            elif not anchors[place] or _holds(anchors[place], state, symbol):
                for following in free[place]:
                    if following not in seen:
                        seen.add(following)
                        todo.append(following)
        return reached


def _holds(anchor: str, state: _State, symbol: str) -> bool:
    match anchor:
        case "^" | "A":
            return state.at_start
        case "$":
            return symbol in (_END, _LAST_NEWLINE)
        case "Z":
            return symbol == _END
        case _:
            word_after = symbol != _END and _is_word(symbol[0])
            return (state.word_before != word_after) == (anchor == "b")


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Pattern:
    return Pattern(pattern)
