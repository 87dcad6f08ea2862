"""The scope of a registration service: environment, namespace and tenant, and the resulting topics."""

from dataclasses import dataclass
from hashlib import sha256

from podium.log.ids import check_id
from podium.log.messages import DEAD_SUFFIX, TOPIC_EXPECTED, is_topic
from podium.nodes.publishing import filled_topic
from podium.nodes.registration.models.model_orchestrator_config import ModelOrchestratorConfig
from podium.operations.inputs import InvalidInput
from podium.text import visible


@dataclass(frozen=True, slots=True)
class Place:
    """Runs have `env` as their environment and `namespace` as their project."""

    env: str
    namespace: str
    tenant_id: str

    @property
    def group(self) -> str:
        """The consumer group of all instances."""
        return f"podium-registration.{self.env}.{self.namespace}"

    @property
    def pool(self) -> str:
        """The pool whose workers execute the runs."""
        digest = sha256(f"{self.tenant_id}|{self.env}|{self.namespace}".encode()).hexdigest()
        return f"registration-{digest[:32]}"

    @property
    def name(self) -> str:
        return f"{self.env}.{self.namespace}"

    @property
    def owner(self) -> str:
        """The owner of the nodes in the registration tables."""
        return f"{self.env}/{self.namespace}"

    def check(self) -> None:
        """Raises `InvalidId` and `InvalidInput` for names that no id or topic can have."""
        check_id("environment_id", self.env)
        check_id("project_id", self.namespace)
        check_id("tenant_id", self.tenant_id)
        for topic in (self.name, self.group):
            if not is_topic(topic):
                raise InvalidInput(f"{visible(topic)!r} is a part of topics and has to be {TOPIC_EXPECTED}")

    def topic(self, pattern: str) -> str:
        return filled_topic(pattern, self.env, self.namespace)

    def topics(self, config: ModelOrchestratorConfig) -> list[str]:
        """All topics that have to exist."""
        return [*self.topics_read(config), *self.topics_written(config)]

    def topics_read(self, config: ModelOrchestratorConfig) -> list[str]:
        return [self.topic(one.topic) for one in config.consumed_events]

    def topics_written(self, config: ModelOrchestratorConfig) -> list[str]:
        """Dead-letter topics of those that are read, and the topics that runs publish to."""
        dead = [f"{topic}{DEAD_SUFFIX}" for topic in self.topics_read(config)]
        return [*dead, *(self.topic(one.topic) for one in config.published_events)]
