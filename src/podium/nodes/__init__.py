"""The node-contract architecture: orchestrators that decide and emit actions, nodes that act.

The names of the specification, and what a node is written with, are importable flat from here.
"""

from podium.nodes.action import ModelAction
from podium.nodes.base import InvalidNode, NodeCompute, NodeCustom, NodeEffect, NodeReducer, operation
from podium.nodes.context import ModelStepResult, NodeContext
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
from podium.nodes.errors import (
    AggregationError,
    EffectExecutionError,
    EnumCoreErrorCode,
    ModelOnexError,
    NodeError,
    ReducerError,
)
from podium.nodes.executor import (
    _create_action_for_step,
    execute_workflow,
    get_execution_order,
    validate_workflow_definition,
)
from podium.nodes.orchestrator import MixinWorkflowExecution, ModelONEXContainer, NodeOrchestrator
from podium.nodes.result import WorkflowExecutionResult

__all__ = [
    "AggregationError",
    "EffectExecutionError",
    "EnumActionType",
    "EnumBranchCondition",
    "EnumCoreErrorCode",
    "EnumExecutionMode",
    "EnumFailureRecoveryStrategy",
    "EnumWorkflowState",
    "InvalidNode",
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
    "ModelStepResult",
    "ModelWorkflowDefinition",
    "ModelWorkflowDefinitionMetadata",
    "ModelWorkflowNode",
    "ModelWorkflowStep",
    "NodeCompute",
    "NodeContext",
    "NodeCustom",
    "NodeEffect",
    "NodeError",
    "NodeOrchestrator",
    "NodeReducer",
    "ReducerError",
    "WorkflowExecutionResult",
    "_create_action_for_step",
    "execute_workflow",
    "get_execution_order",
    "operation",
    "validate_workflow_definition",
]
