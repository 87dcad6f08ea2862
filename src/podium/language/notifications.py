"""`notify`: which targets are notified of what.

A notification is delivered by a process other than the one that decided on it, maybe days later. So its texts
may name values of the environment, which that process has, but no values of the run.
"""

from typing import Final

import msgspec

from podium.expressions.types import Text
from podium.language.codes import Code
from podium.language.references import Names, Place
from podium.language.tree import Mapping, Scalar, Sequence
from podium.language.values import arguments_of, text_of, texts_at, value_at
from podium.machine.program import references_in
from podium.plan.plan import Notification
from podium.text import quoted

TARGETS: Final = ("webhook", "command", "apprise")


def notifications_of(node: Mapping, names: Names) -> tuple[Notification, ...]:
    """The notifications of a step or a workflow. They may name every secret of the workflow."""
    listed = value_at(node, "notify")
    if not isinstance(listed, Sequence):
        return ()
    there = msgspec.structs.replace(names, secrets=frozenset(names.workflow.secrets))
    return tuple(_notification(item, there) for item in listed.items if isinstance(item, Mapping))


def _notification(node: Mapping, names: Names) -> Notification:
    given = [key for key in TARGETS if key in node.entries]
    if len(given) > 1 or (not given and not names.workflow.is_damaged(node)):
        names.problems.error(
            Code.NOT_ONE_KEY,
            node.entries[given[1]].key if given else node,
            f"a notification has one target, not {len(given)}.",
            f"Write one of: {', '.join(TARGETS)}."
            if not given
            else "Write a second entry for the other one.",
        )
    command = value_at(node, "command")
    return Notification(
        on=tuple(texts_at(node, "on")),  # type: ignore[arg-type]  # checked by the grammar
        webhook=_address(node, "webhook", names),
        command=_checked(arguments_of(command, names, Place.ARGUMENT), command, names) if command else (),
        apprise=_address(node, "apprise", names),
    )


def _address(node: Mapping, key: str, names: Names) -> Text | None:
    value = value_at(node, key)
    if not isinstance(value, Scalar):
        return None
    before, _, _ = str(value.value).partition("${")
    if key == "webhook" and before and not before.startswith(("http://", "https://")):
        names.problems.error(
            Code.INVALID_FORMAT,
            value,
            f"'webhook' cannot be {quoted(str(value.value))}.",
            "Write an address that starts with https:// or http://.",
        )
    return _checked((text_of(value, names, Place.PRIVATE),), value, names)[0]


def _checked(texts: tuple[Text, ...], node: Scalar | Sequence | Mapping, names: Names) -> tuple[Text, ...]:
    for reference in references_in(texts):
        namespace = str(reference.path[0])
        if namespace != "env":
            names.problems.error(
                Code.UNKNOWN_NAME,
                node,
                f"a notification cannot name {quoted(namespace)}: it is sent after the run decided on it.",
                "Name a secret or a variable, like ${env.HOOK_URL}; what happened is in the JSON that is sent.",
            )
            break
    return texts
