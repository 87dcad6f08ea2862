"""Which of two descriptions of a node is newer. An event without an epoch counts as epoch 0."""

from datetime import datetime
from typing import Final

from podium.ports.catalog import NodeDescription, Projection

# Fields that say when and by which event a node described itself, not what it is.
_NOT_CONTENT: Final = frozenset({"correlation_id", "epoch", "timestamp"})


def epoch_of(epoch: int | None) -> int:
    return epoch or 0


def is_same_content(one: NodeDescription, other: NodeDescription) -> bool:
    return one.model_dump(exclude=set(_NOT_CONTENT)) == other.model_dump(exclude=set(_NOT_CONTENT))


def may_restart(known: Projection, node: NodeDescription) -> bool:
    """Whether a node that has ended its registration may register again with this."""
    if epoch_of(node.epoch) > epoch_of(known.node.epoch):
        return True
    has_epoch = node.epoch is not None or known.node.epoch is not None
    return not has_epoch and node.timestamp > known.seen_at


def is_newer(known: Projection, node: NodeDescription) -> bool:
    """Whether this replaces what is known of a live node: decided by the order of events, not of their
    arrival.
    """
    return _key(node.epoch, node.timestamp) > _key(known.node.epoch, known.seen_at)


def is_older_ack(known: Projection, epoch: int | None, timestamp: datetime) -> bool:
    """Whether an acknowledgement belongs to an earlier registration: it may be delivered again long after
    that ended.
    """
    if epoch is None and known.node.epoch is None:
        return timestamp < known.node.timestamp
    return epoch_of(epoch) < epoch_of(known.node.epoch)


def is_same_delivery(known: Projection, node: NodeDescription) -> bool:
    return epoch_of(node.epoch) == epoch_of(known.node.epoch) and is_same_content(known.node, node)


def _key(epoch: int | None, timestamp: datetime) -> tuple[int, datetime]:
    return epoch_of(epoch), timestamp
