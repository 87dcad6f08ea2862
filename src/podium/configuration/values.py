"""Values that several sections of the configuration file have: non-empty mappings, and ids."""

from collections.abc import Iterable, Iterator, Mapping

from podium.configuration.problems import Problems
from podium.errors import InvalidId
from podium.language.tree import Entry, Node, Scalar, describe
from podium.language.tree import Mapping as Written
from podium.log.ids import check_id


def section(entry: Entry, key: str, right: str, problems: Problems) -> Mapping[str, Entry] | None:
    """The entries of a non-empty mapping. Texts are not shown, because they may be secrets."""
    match entry.value:
        case Written(entries=entries) if entries:
            return entries
        case Written():
            found = "empty"
        case Scalar(value=str()):
            found = "a text"
        case _:
            found = describe(entry.value)
    problems.add(entry, f"`{key}` is {found}; {right}")
    return None


def is_id(kind: str, entry: Entry, problems: Problems) -> bool:
    """Whether the key of an entry is a valid id."""
    try:
        check_id(kind, entry.key.text)
    except InvalidId as error:
        problems.add(entry, str(error))
        return False
    return True


def read_ids(nodes: Iterable[Node], kind: str, key: str, problems: Problems) -> Iterator[tuple[Node, str]]:
    """The items of a list, as ids."""
    for node in nodes:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            problems.add_at(node, f"`{key}` has {describe(node)}; write the id of a {kind}")
            continue
        try:
            check_id(kind, node.value)
            yield node, node.value
        except InvalidId as error:
            problems.add_at(node, f"`{key}`: {error}")
