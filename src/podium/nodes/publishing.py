"""What nodes publish: messages in their output, for topics that the contract declares.

A declared topic is a pattern with `{env}` and `{namespace}`. They are replaced by the environment and the
project of the run, so that one contract serves several of them. A node may name the pattern as it is in the
contract, or the resulting topic.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from podium.log.messages import is_topic
from podium.nodes.errors import NodeError

# A field of output models. Its value is stored as `publishes` of the step's completion, not as its output.
PUBLISHES: Final = "publishes"
# Limit for all messages of a step together: they are never moved out of its completion, which has at most 256
# KiB.
MAX_BYTES: Final = 128 * 1024


class TopicNotDeclared(NodeError):
    """A node publishes to a topic that the contract does not declare, or that no bus accepts."""

    code = "TOPIC_NOT_DECLARED"


class MessagesTooLarge(NodeError):
    code = "MESSAGE_TOO_LARGE"


class Publication(BaseModel):
    """A message. Messages with the same key stay in order; `type` is its header `event_type`, by default the topic,
    and `version`, if it has one, its header `event_version`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    topic: str = Field(min_length=1, max_length=249)
    key: str | None = None
    type: str | None = None
    version: str | None = Field(default=None, pattern=r"^[0-9A-Za-z.+-]{1,64}$")
    body: JsonValue


class _Publishing(BaseModel):
    publishes: list[Publication]


def can_publish(output_model: type[BaseModel]) -> bool:
    return PUBLISHES in output_model.model_fields


def filled_topic(pattern: str, env: str, namespace: str) -> str:
    return pattern.replace("{env}", env).replace("{namespace}", namespace)


def topics_of(patterns: Iterable[str], env: str, namespace: str) -> dict[str, str]:
    """The topic names that a node may use, and the actual topics."""
    filled = {pattern: filled_topic(pattern, env, namespace) for pattern in patterns}
    return {**{topic: topic for topic in filled.values()}, **filled}


def messages_of(publishes: Any, topics: Mapping[str, str]) -> list[dict[str, Any]]:
    """The messages in their stored form. Raises `ValidationError`, `TopicNotDeclared` and `MessagesTooLarge`."""
    read = _Publishing.model_validate({PUBLISHES: publishes})
    messages = [_message(one, topics) for one in read.publishes]
    if len(msgspec.json.encode(messages)) > MAX_BYTES:
        raise MessagesTooLarge
    return messages


def _message(one: Publication, topics: Mapping[str, str]) -> dict[str, Any]:
    topic = topics.get(one.topic, "")
    if not is_topic(topic):
        raise TopicNotDeclared
    message = {"topic": topic, "key": one.key, "type": one.type or topic, "body": one.body}
    return message if one.version is None else {**message, "version": one.version}
