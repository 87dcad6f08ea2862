"""Conditions as data: `when`, `while` and `repeat_until`.

A condition is true, false, or depends on the environment (`FileExists`, `EnvSet`); those answers are
recorded.
"""

from typing import Literal, TypeAlias

import msgspec

from podium.expressions.types import Expression, Text

StepState: TypeAlias = Literal["ok", "failed", "skipped", "ran"]


class _Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    pass


class All(_Node, frozen=True, tag="all"):
    of: tuple["Condition", ...]


class AnyOf(_Node, frozen=True, tag="any"):
    of: tuple["Condition", ...]


class Not(_Node, frozen=True, tag="not"):
    of: "Condition"


class StepIs(_Node, frozen=True, tag="step"):
    """How the newest visit of a step ended; false for every test of a step that has not run."""

    state: StepState
    step: str


class FileExists(_Node, frozen=True, tag="file"):
    path: Text


class EnvSet(_Node, frozen=True, tag="env"):
    name: Text


class Holds(_Node, frozen=True, tag="expr"):
    expression: Expression


Condition: TypeAlias = bool | All | AnyOf | Not | StepIs | FileExists | EnvSet | Holds
