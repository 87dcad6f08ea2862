"""A workflow that a program has read."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from podium.language.diagnostics import Diagnostic, Severity
from podium.language.reader import MAX_BYTES
from podium.operations.env_files import EnvFileNotUsable
from podium.operations.inputs import InvalidInput
from podium.operations.workflows import require_workflow
from podium.plan.plan import Plan
from podium.wiring.agents import installed_providers
from podium.wiring.nodes import node_registry

if TYPE_CHECKING:
    from podium.nodes.registry import NodeClass


# Characters that JSON does not escape and YAML does not accept.
_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow that has been checked completely and can be run."""

    name: str
    plan: Plan
    source: bytes
    warnings: tuple[Diagnostic, ...] = ()

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        workspace: str | Path | None = None,
        providers: Sequence[str] = (),
        nodes: "Sequence[NodeClass]" = (),
    ) -> "Workflow":
        """Read a file. Raises `InvalidWorkflow` with every problem at its position, and OSError.

        `providers`: names that will be given to `open` or `run`, besides those built in or installed. `nodes`: the same
        for the nodes of a contract.
        """
        with Path(path).open("rb") as file:
            # One byte more than allowed is enough to detect that a file is too large.
            content = file.read(MAX_BYTES + 1)
        return cls._read(content, str(path), workspace, providers, nodes)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        name: str = "<text>",
        workspace: str | Path | None = None,
        providers: Sequence[str] = (),
        nodes: "Sequence[NodeClass]" = (),
    ) -> "Workflow":
        """Read YAML text. Files that it names are looked for in the workspace."""
        # A lone surrogate is reported with its position, like any other byte that is not UTF-8.
        return cls._read(text.encode(errors="surrogatepass"), name, workspace, providers, nodes)

    @classmethod
    def from_dict(
        cls,
        workflow: Mapping[str, Any],
        *,
        name: str = "<dict>",
        workspace: str | Path | None = None,
        providers: Sequence[str] = (),
        nodes: "Sequence[NodeClass]" = (),
    ) -> "Workflow":
        """Made of plain data. Positions in messages are those in the same data written as indented JSON."""
        try:
            text = json.dumps(workflow, indent=2, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(
                f"the workflow is not plain data: {error}; use dict, list, str, int, float, bool and None"
            ) from error
        text = _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        return cls.parse(text, name=name, workspace=workspace, providers=providers, nodes=nodes)

    @classmethod
    def _read(
        cls,
        content: bytes,
        name: str,
        workspace: str | Path | None,
        providers: Sequence[str],
        nodes: "Sequence[NodeClass]",
    ) -> "Workflow":
        def known() -> tuple[str, ...]:
            return (*providers, *installed_providers())

        folder = Path(workspace) if workspace is not None else None
        reading = require_workflow(
            content,
            name,
            workspace=folder,
            installed_providers=known,
            nodes=node_registry(nodes) if nodes else None,
        )
        assert reading.plan is not None
        if reading.env_files:
            raise EnvFileNotUsable(
                "`env_file` is read by `podium run`; a program sets the variables of its own process, in os.environ"
            )
        warnings = tuple(one for one in reading.diagnostics if one.severity is Severity.WARNING)
        return cls(reading.plan.metadata.name, reading.plan, content, warnings)
