"""The intents of the registration workflow: the discriminated union of `nodes/intents.py` under its name here."""

from podium.nodes.intents import (
    ModelConsulPayload,
    ModelConsulRegistrationIntent,
    ModelIntent,
    ModelPostgresPayload,
    ModelPostgresUpsertIntent,
)

ModelRegistrationIntent = ModelIntent

__all__ = [
    "ModelConsulPayload",
    "ModelConsulRegistrationIntent",
    "ModelPostgresPayload",
    "ModelPostgresUpsertIntent",
    "ModelRegistrationIntent",
]
