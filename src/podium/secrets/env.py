"""Secrets in the environment of Podium itself.

There is one environment for the whole process, so it belongs to the default tenant alone.
"""

import os
from collections.abc import Collection, Mapping

from podium.log.ids import DEFAULT_TENANT
from podium.secrets.source import Scope


class EnvSecrets:
    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = os.environ if variables is None else variables

    async def find(self, names: Collection[str], scope: Scope) -> Mapping[str, str]:
        if scope.tenant_id != DEFAULT_TENANT:
            return {}
        return {name: self._variables[name] for name in names if name in self._variables}
