"""Changes that signals made to a step of a run. `overrides.py` defines what can be changed, and applies it."""

from typing import Any, Final

import msgspec

# A later override is merged into these and replaces the others.
_MERGED: Final = frozenset({"env", "args", "headers", "retry"})


class StepChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was changed in a step, and by which signals."""

    by: tuple[str, ...]
    override: dict[str, Any] = {}
    target: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What the log says at the start of an attempt that was changed."""
        return {"overriddenBy": [*self.by]}

    def then(self, later: "StepChange") -> "StepChange":
        merged = {
            key: {**self.override[key], **value} if key in _MERGED and key in self.override else value
            for key, value in later.override.items()
        }
        target = later.target if later.target is not None else self.target
        return StepChange((*self.by, *later.by), {**self.override, **merged}, target)
