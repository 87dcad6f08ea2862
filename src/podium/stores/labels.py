"""The labels of a run as a column: JSON, or NULL for a run without labels."""

import msgspec


def labels_column(labels: dict[str, str]) -> bytes | None:
    return msgspec.json.encode(labels) if labels else None


def labels_of(column: bytes | None) -> dict[str, str]:
    return msgspec.json.decode(column, type=dict[str, str]) if column is not None else {}
