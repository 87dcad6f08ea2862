"""The contract of the registration workflow, and its settings."""

from functools import cache
from pathlib import Path
from typing import Final

from podium.errors import PodiumError
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
_STEPS: Final = (
    "receive_introspection",
    "compute_intents",
    "execute_consul_registration",
    "execute_postgres_registration",
    "publish_outcome",
)


@cache
def registration_plan() -> Plan:
    """The contract, compiled."""
    reading = compile_contract(CONTRACT.read_bytes(), CONTRACT.name, NodeRegistry())
    assert reading.plan is not None, reading.diagnostics
    return reading.plan


@cache
def registration_config() -> ModelOrchestratorConfig:
    return config_of(registration_plan())


class NotRegistration(PodiumError):
    """A contract that lacks a step of the registration."""

    code = "NOT_REGISTRATION"


def config_of(plan: Plan) -> ModelOrchestratorConfig:
    """The config of the nodes in a compiled contract, so that the service uses the same settings as the runs.

    Raises `NotRegistration`.
    """
    configs = {
        step.step_id: step.body.config for step in plan.workflow.block.steps if isinstance(step.body, Node)
    }
    missing = [name for name in _STEPS if name not in configs]
    if missing:
        raise NotRegistration(
            f"the contract has no step {', '.join(missing)}; start from the one of this package: {CONTRACT}"
        )
    reducer = ReducerConfig.model_validate(configs["compute_intents"])
    received = ReceiveConfig.model_validate(configs["receive_introspection"])
    return ModelOrchestratorConfig(
        time_injection=reducer.time_injection,
        rules=ReducerRules.model_validate(reducer.model_dump(exclude={"time_injection"})),
        consumed_events=received.consumed_events,
        published_events=configs["publish_outcome"]["published_events"],
        intent_consumption=configs["execute_consul_registration"]["intent_consumption"],
    )
