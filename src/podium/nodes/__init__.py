"""The node-contract architecture: orchestrators that decide and emit actions, nodes that act.

The names of the specification are importable flat from here; where each lives is our own affair.
"""

from podium.nodes.action import ModelAction
from podium.nodes.definition import (
    ModelCoordinationRules,
    ModelExecutionGraph,
    ModelSemVer,
    ModelWorkflowDefinition,
    ModelWorkflowDefinitionMetadata,
    ModelWorkflowNode,
    ModelWorkflowStep,
)
from podium.nodes.enums import (
    EnumActionType,
    EnumBranchCondition,
    EnumExecutionMode,
    EnumFailureRecoveryStrategy,
    EnumWorkflowState,
)
from podium.nodes.envelopes import ModelCustomFields, ModelOrchestratorInput, ModelOrchestratorOutput
from podium.nodes.errors import EnumCoreErrorCode, ModelOnexError
from podium.nodes.executor import (
    _create_action_for_step,
    execute_workflow,
    get_execution_order,
    validate_workflow_definition,
)
from podium.nodes.orchestrator import MixinWorkflowExecution, ModelONEXContainer, NodeOrchestrator
from podium.nodes.result import WorkflowExecutionResult

__all__ = [
    "EnumActionType",
    "EnumBranchCondition",
    "EnumCoreErrorCode",
    "EnumExecutionMode",
    "EnumFailureRecoveryStrategy",
    "EnumWorkflowState",
    "MixinWorkflowExecution",
    "ModelAction",
    "ModelCoordinationRules",
    "ModelCustomFields",
    "ModelExecutionGraph",
    "ModelONEXContainer",
    "ModelOnexError",
    "ModelOrchestratorInput",
    "ModelOrchestratorOutput",
    "ModelSemVer",
    "ModelWorkflowDefinition",
    "ModelWorkflowDefinitionMetadata",
    "ModelWorkflowNode",
    "ModelWorkflowStep",
    "NodeOrchestrator",
    "WorkflowExecutionResult",
    "_create_action_for_step",
    "execute_workflow",
    "get_execution_order",
    "validate_workflow_definition",
]
