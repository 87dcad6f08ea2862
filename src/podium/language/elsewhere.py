"""Commands that run elsewhere: `ssh`, `container`, and which keys of a step have no effect there."""

from typing import Final

from podium.expressions.types import Text
from podium.language.codes import Code
from podium.language.problems import Problems
from podium.language.references import Names, Place
from podium.language.tree import Mapping, Scalar
from podium.language.values import given, scalar_at, text_of, value_at
from podium.plan import container_names
from podium.plan.hosts import is_host, is_user
from podium.plan.plan import Container, Ssh
from podium.text import quoted

# Keys that cannot work on another machine: why, and what to do instead.
_NOT_OVER_SSH: Final = {
    "keep_children": (
        "processes on another machine end with the command.",
        "Start a service there, for example with systemctl, and remove `keep_children`.",
    ),
    "cache": (
        "what another machine does is not known to be the same a second time.",
        "Remove `cache`.",
    ),
    "env_policy": (
        "the environment of the command is that of the other machine.",
        "Remove `env_policy`; `env` and `secrets` are sent.",
    ),
    "input_file": (
        "no files are copied to the other machine.",
        "Copy it in a step before, for example with scp or rsync.",
    ),
}
_NOT_IN_A_CONTAINER: Final = {
    "ssh": (
        "a command runs on another machine or in a container.",
        "Remove one of them; to start a container on another machine, call its runtime there.",
    ),
    "keep_children": (
        "a container ends with its command.",
        "Start the container in the background with a command of its own, and remove `keep_children`.",
    ),
    "env_policy": (
        "a container has an environment of its own.",
        "Remove `env_policy`; `env` and `secrets` are passed.",
    ),
}

# Keys that cannot be combined with one that says where a step runs.
NOT_BESIDE: Final = {"container": _NOT_IN_A_CONTAINER, "ssh": _NOT_OVER_SSH}


def container_of(node: Mapping, names: Names) -> Container | None:
    container = value_at(node, "container")
    if not isinstance(container, Mapping):
        return None
    _check_keys(node, "container", _NOT_IN_A_CONTAINER, names.problems)
    image, network, user = (_text(container, key, names) for key in ("image", "network", "user"))
    for key, text, is_right, hint in (
        (
            "image",
            image,
            container_names.is_image,
            "Write the name of an image, like python:3.12.",
        ),
        ("network", network, container_names.is_network, "Write none, host, or the name of a network."),
        ("user", user, container_names.is_user, "Write a user, or a user and a group, like 1000:1000."),
    ):
        if isinstance(text, str) and not is_right(text):
            _refuse(container, key, hint, names)
    return Container(
        image or "",
        **given(
            runtime=scalar_at(container, "runtime"),
            network=network,
            user=user,
            pull=scalar_at(container, "pull"),
        ),
    )


def ssh_of(node: Mapping, names: Names) -> Ssh | None:
    ssh = value_at(node, "ssh")
    if not isinstance(ssh, Mapping):
        return None
    _check_keys(node, "ssh", _NOT_OVER_SSH, names.problems)
    host, user = _text(ssh, "host", names), _text(ssh, "user", names)
    if isinstance(host, str) and not is_host(host):
        _refuse(
            ssh, "host", "Write a name or an address alone; `user` and `port` are keys of their own.", names
        )
    if isinstance(user, str) and not is_user(user):
        _refuse(ssh, "user", "Write the name of a user, of letters, digits and . _ - @ +.", names)
    return Ssh(
        host or "",
        **given(user=user, port=scalar_at(ssh, "port"), identity_file=_text(ssh, "identity_file", names)),
    )


def _text(node: Mapping, key: str, names: Names) -> Text | None:
    value = value_at(node, key)
    return text_of(value, names, Place.STORED) if value is not None else None


def _refuse(node: Mapping, key: str, hint: str, names: Names) -> None:
    value = value_at(node, key)
    assert isinstance(value, Scalar)
    names.problems.error(
        Code.INVALID_FORMAT, value, f"{quoted(key)} cannot be {quoted(str(value.value))}.", hint
    )


def _check_keys(
    node: Mapping, place: str, impossible: dict[str, tuple[str, str]], problems: Problems
) -> None:
    for key, (why, instead) in impossible.items():
        if key in node.entries and not _is_false(node, key):
            problems.at_key(
                Code.CONFLICTING_KEYS,
                node,
                key,
                f"{quoted(key)} does not go with {quoted(place)}: {why}",
                instead,
            )


def _is_false(node: Mapping, key: str) -> bool:
    value = value_at(node, key)
    return isinstance(value, Scalar) and value.value is False
