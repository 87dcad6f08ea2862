"""Fault injection for tests about nodes."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from uuid import UUID

import pytest

from podium.nodes import ModelAction, ModelWorkflowStep, executor

FailSteps: TypeAlias = Callable[..., None]


@pytest.fixture
def fail_steps(monkeypatch: pytest.MonkeyPatch) -> FailSteps:
    """Make the actions of the steps with these names impossible to create."""
    original = executor._create_action_for_step

    def fail(*names: str, error: BaseException | None = None) -> None:
        def create(
            step: ModelWorkflowStep, workflow_id: UUID, actions: Mapping[UUID, UUID], **keywords: Any
        ) -> ModelAction:
            if step.step_name in names:
                raise error or RuntimeError("the fault was injected")
            return original(step, workflow_id, actions, **keywords)

        monkeypatch.setattr(executor, "_create_action_for_step", create)

    return fail
