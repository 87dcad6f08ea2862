"""The contract of the registration workflow, and what it sets."""

from functools import cache
from pathlib import Path
from typing import Final

from podium.nodes.compiling import compile_contract
from podium.nodes.registration.models.model_orchestrator_config import (
    ModelOrchestratorConfig,
    ReceiveConfig,
    ReducerConfig,
    ReducerRules,
)
from podium.nodes.registry import NodeRegistry
from podium.plan.plan import Node, Plan

CONTRACT: Final = Path(__file__).with_name("contract.yaml")


@cache
def registration_plan() -> Plan:
    """The contract, compiled."""
    reading = compile_contract(CONTRACT.read_bytes(), CONTRACT.name, NodeRegistry())
    assert reading.plan is not None, reading.diagnostics
    return reading.plan


@cache
def registration_config() -> ModelOrchestratorConfig:
    """What the nodes of the compiled contract are given, so that what runs and what feeds it agree."""
    plan = registration_plan()
    configs = {
        step.step_id: step.body.config for step in plan.workflow.block.steps if isinstance(step.body, Node)
    }
    reducer = ReducerConfig.model_validate(configs["compute_intents"])
    received = ReceiveConfig.model_validate(configs["receive_introspection"])
    return ModelOrchestratorConfig(
        time_injection=reducer.time_injection,
        rules=ReducerRules.model_validate(reducer.model_dump(exclude={"time_injection"})),
        consumed_events=received.consumed_events,
        published_events=configs["publish_outcome"]["published_events"],
        intent_consumption=configs["execute_consul_registration"]["intent_consumption"],
    )
