"""A Makefile as a workflow: the first target, and what it needs, as steps with `depends_on`.

What make does beyond running commands (comparing times of files, pattern rules, functions) is not translated.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from podium.language.namespaces import NAMESPACES
from podium.operations.importing.translation import NOT_DONE, NotTranslatable, StepNames, Translation

_ASSIGNMENT: Final = re.compile(r"^(?:export\s+)?([A-Za-z_]\w*)\s*(?::|\?|::)?=\s*(.*)$")
_RULE: Final = re.compile(r"^([^\s#=:][^#=:]*?)\s*::?(?!=)\s*([^#;=|]*)")
_DIRECTIVE: Final = re.compile(
    r"^-?(if(?:n?eq|n?def)|else|endif|include|define|endef|vpath|override|unexport)\b"
)
_REFERENCE: Final = re.compile(r"\$(?:\$|\((\w+)\)|\{(\w+)\}|([@<^])|(.))")


@dataclass
class _Target:
    needs: list[str]
    recipe: list[str] = field(default_factory=list)


def from_makefile(text: str, name: str) -> Translation:
    """Raises `NotTranslatable` if it has no target with commands."""
    made = _Makefile(text)
    wanted = made.wanted()
    translation = Translation({"version": "2.0", "name": name}, made.left_out)
    env = {key: value for key, value in made.variables.items() if "$" not in value}
    names, steps = StepNames(), list[dict[str, Any]]()
    called = {target: names.unique(target) for target in wanted if made.targets[target].recipe}
    scripts = {target: made.script(target) for target in called}
    needed = {
        need for target, script in scripts.items() if script is not None for need in made.needed(target)
    }
    for target, step_name in called.items():
        script = scripts[target]
        if script is None and target not in needed:
            continue
        if script is None:
            made.left_out.append(
                f"step '{step_name}' fails until you write its commands: other steps need it"
            )
        needs = [called[need] for need in made.needed(target) if scripts[need] is not None or need in needed]
        depends = {"depends_on": needs} if needs else {}
        steps.append({"name": step_name, **depends, "shell": NOT_DONE if script is None else script})
    if not any(script is not None for script in scripts.values()):
        raise NotTranslatable("the Makefile has no target with commands that can be translated")
    if env:
        translation.workflow["env"] = env
    translation.workflow["steps"] = steps
    others = [target for target in made.targets if target not in wanted]
    if others:
        made.left_out.append(f"targets that '{made.first}' does not need: {', '.join(others)}")
    return translation


class _Makefile:
    def __init__(self, text: str) -> None:
        self.variables: dict[str, str] = {}
        self.targets: dict[str, _Target] = {}
        self.left_out: list[str] = []
        self.first = ""
        self._read(text.replace("\\\n", " "))

    def _read(self, text: str) -> None:
        open_targets: list[_Target] = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.startswith("\t"):
                for target in open_targets:
                    target.recipe.append(line.strip())
            elif not line.strip() or line.startswith("#"):
                continue
            elif _DIRECTIVE.match(line):
                self.left_out.append(f"line {number}: {line.strip()}")
            elif assigned := _ASSIGNMENT.match(line):
                self.variables[assigned[1]] = assigned[2].strip()
            elif rule := _RULE.match(line):
                open_targets = self._rule(rule[1].split(), rule[2].split(), number)
            else:
                self.left_out.append(f"line {number}: {line.strip()}")

    def _rule(self, names: list[str], needs: list[str], number: int) -> list[_Target]:
        if names[0].startswith("."):
            return []
        if any("%" in word or "$" in word for word in (*names, *needs)):
            self.left_out.append(
                f"line {number}: the rule for {' '.join(names)}, which has a pattern or variable"
            )
            return []
        self.first = self.first or names[0]
        for name in names:
            known = self.targets.setdefault(name, _Target([]))
            known.needs += needs
        return [self.targets[name] for name in names]

    def wanted(self) -> list[str]:
        """The first target and its prerequisites, in the order of the file."""
        reached, pending = set[str](), [self.first]
        while pending:
            target = pending.pop()
            if target in self.targets and target not in reached:
                reached.add(target)
                pending += self.targets[target].needs
        return [target for target in self.targets if target in reached]

    def needed(self, target: str) -> list[str]:
        """The prerequisites with commands; one without commands is replaced by its own prerequisites."""
        found: list[str] = []
        pending, seen = list(self.targets[target].needs), {target}
        while pending:
            need = pending.pop(0)
            if need in seen or need not in self.targets:
                continue
            seen.add(need)
            if self.targets[need].recipe:
                found.append(need)
            else:
                pending += self.targets[need].needs
        return found

    def script(self, target: str) -> str | None:
        """Its commands for `sh -eu`; None if one of them cannot be translated, which is noted."""
        lines = []
        for line in self.targets[target].recipe:
            command, ignores = line.lstrip("@+-"), "-" in line[: len(line) - len(line.lstrip("@+-"))]
            translated = self._translated(command, target)
            if translated is None:
                self.left_out.append(f"target '{target}': `{line}` uses a function or variable of make")
                return None
            # In make each line has a shell of its own.
            shown = f"({translated})" if re.search(r"\bcd\b", translated) else translated
            lines.append(f"{shown} || true" if ignores else shown)
        return "\n".join(lines) + "\n" if len(lines) > 1 else "\n".join(lines)

    def _translated(self, command: str, target: str) -> str | None:
        pieces, at = list[str](), 0
        for found in _REFERENCE.finditer(command):
            piece = self._value(found, target)
            if piece is None:
                return None
            pieces += [command[at : found.start()], piece]
            at = found.end()
        return "".join(pieces) + command[at:]

    def _value(self, found: re.Match[str], target: str) -> str | None:
        name, automatic = found[1] or found[2], found[3]
        if found[0] == "$$":
            return "$"
        if automatic is not None:
            needs = self.targets[target].needs
            return {"@": target, "<": needs[0] if needs else "", "^": " ".join(needs)}[automatic]
        if name is None or name in NAMESPACES or "$" in self.variables.get(name, ""):
            return None
        return f"${{{name}}}" if name in self.variables else f"${{{name}:-}}"
