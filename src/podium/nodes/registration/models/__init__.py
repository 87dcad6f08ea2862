"""Models of the registration workflow: all frozen, unknown fields refused. They are imported from here, not flat."""

from podium.nodes.registration.models.model_intent_execution_result import ModelIntentExecutionResult
from podium.nodes.registration.models.model_orchestrator_config import ModelOrchestratorConfig
from podium.nodes.registration.models.model_orchestrator_input import ModelOrchestratorInput
from podium.nodes.registration.models.model_orchestrator_output import ModelOrchestratorOutput
from podium.nodes.registration.models.model_reducer_state import ModelReducerState
from podium.nodes.registration.models.model_registration_intent import ModelRegistrationIntent

__all__ = [
    "ModelIntentExecutionResult",
    "ModelOrchestratorConfig",
    "ModelOrchestratorInput",
    "ModelOrchestratorOutput",
    "ModelReducerState",
    "ModelRegistrationIntent",
]
