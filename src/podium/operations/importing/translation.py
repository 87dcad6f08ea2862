"""The result of translating a file, and its text."""

import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from podium.errors import PodiumError

# In the place of what others need and cannot be translated: it must not seem to be done.
NOT_DONE: Final = "echo 'not translated: write the commands of this step' >&2; exit 1"


class NotTranslatable(PodiumError):
    """Nothing in a file can be translated."""

    code = "NOT_TRANSLATABLE"


@dataclass
class Translation:
    workflow: dict[str, Any]
    # One sentence for each thing that is not in the workflow.
    left_out: list[str] = field(default_factory=list)

    def text(self) -> str:
        notes = "".join(f"#   - {line}\n" for line in self.left_out)
        header = f"# Not translated:\n{notes}" if notes else ""
        return header + yaml.dump(
            self.workflow, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000
        )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, False)


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


class StepNames:
    """Valid and unique step names, without characters that are syntax in references."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, wanted: str) -> str:
        plain = " ".join(re.sub(r"[^\w +,()@&=-]|:-", " ", wanted).split()).strip("_ ")[:80] or "Step"
        name, number = plain, 2
        while name in self._taken:
            name, number = f"{plain} {number}", number + 1
        self._taken.add(name)
        return name


def title(path_name: str) -> str:
    return path_name if re.search(r"[A-Za-z0-9]", path_name) else "workflow"
