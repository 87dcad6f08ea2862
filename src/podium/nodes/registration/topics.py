"""Topics of a contract: patterns with the environment and the namespace that this process works for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicSpace:
    """Whose events these are. Given to nodes like a port."""

    env: str
    namespace: str

    def topic(self, pattern: str) -> str:
        return pattern.replace("{env}", self.env).replace("{namespace}", self.namespace)
