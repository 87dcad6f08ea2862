"""The node-contract architecture: orchestrators that decide and emit actions, nodes that act.

The names of the specification can be imported directly from here, and form `__all__`. So can everything that
is needed to write a node.
"""

from podium.nodes.action import ModelAction
from podium.nodes.base import InvalidNode as InvalidNode
from podium.nodes.base import NodeCompute as NodeCompute
from podium.nodes.base import NodeCustom as NodeCustom
from podium.nodes.base import NodeEffect as NodeEffect
from podium.nodes.base import NodeReducer as NodeReducer
from podium.nodes.base import operation as operation
from podium.nodes.context import ModelStepResult as ModelStepResult
from podium.nodes.context import NodeContext as NodeContext
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
from podium.nodes.errors import AggregationError as AggregationError
from podium.nodes.errors import EffectExecutionError as EffectExecutionError
from podium.nodes.errors import EnumCoreErrorCode, ModelOnexError
from podium.nodes.errors import NodeError as NodeError
from podium.nodes.errors import ReducerError as ReducerError
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
