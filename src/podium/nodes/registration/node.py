"""The orchestrator. Its behaviour is `contract.yaml`; it has no method of its own."""

from podium.nodes.orchestrator import ModelONEXContainer, NodeOrchestrator


class NodeRegistrationOrchestrator(NodeOrchestrator):
    name = "node_registration_orchestrator"
    version = "1.0.0"

    def __init__(self, container: ModelONEXContainer) -> None:
        super().__init__(container)
