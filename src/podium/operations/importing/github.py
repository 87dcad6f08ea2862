"""A workflow of GitHub Actions: jobs become groups of steps, `run` becomes `shell`.

A step whose condition, action or expression has no equivalent is omitted as a whole and listed: running it
always, or without a part of it, would be worse.
"""

import re
from typing import Any, Final

from podium.language.reader import read_yaml
from podium.language.tree import Mapping, plain
from podium.operations.importing.translation import NOT_DONE, NotTranslatable, StepNames, Translation

_EXPRESSION: Final = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_KNOWN: Final = re.compile(r"(matrix|env|secrets|inputs)\.([A-Za-z_]\w*)")
_OF_A_STEP: Final = frozenset(
    {
        "name",
        "id",
        "run",
        "env",
        "working-directory",
        "timeout-minutes",
        "continue-on-error",
        "shell",
        "uses",
        "with",
        "if",
    }
)
_OF_A_JOB: Final = frozenset({"name", "needs", "steps", "env", "strategy", "timeout-minutes"})


class _LeftOut(Exception):
    """Why a step cannot be translated."""


def from_github(content: bytes, name: str) -> Translation:
    """Raises `NotTranslatable` if it is not such a file, or none of its steps can be translated."""
    document = read_yaml(content, name)
    root = plain(document.root) if isinstance(document.root, Mapping) else None
    jobs = root.get("jobs") if isinstance(root, dict) else None
    if not isinstance(root, dict) or not isinstance(jobs, dict):
        raise NotTranslatable("the file is not a workflow of GitHub Actions: it has no `jobs`")
    translating = _Translating()
    steps = translating.jobs(jobs)
    if not steps:
        raise NotTranslatable("no step of the file can be translated")
    workflow: dict[str, Any] = {"version": "2.0", "name": str(root.get("name") or name)}
    if translating.inputs:
        workflow["inputs"] = {one: {"type": "string", "default": ""} for one in sorted(translating.inputs)}
    if translating.secrets:
        workflow["secrets"] = sorted(translating.secrets)
    env = translating.values(root.get("env"), "env of the workflow")
    if env:
        workflow["env"] = env
    workflow["steps"] = steps
    unknown = [key for key in root if key not in ("name", "jobs", "env")]
    translating.left_out += [f"'{key}' of the workflow" for key in unknown]
    return Translation(workflow, translating.left_out)


class _Translating:
    def __init__(self) -> None:
        self.left_out: list[str] = []
        self.secrets: set[str] = set()
        self.inputs: set[str] = set()
        self._names = StepNames()

    def jobs(self, jobs: dict[str, Any]) -> list[dict[str, Any]]:
        made = {key: self._job(key, job) for key, job in jobs.items() if isinstance(job, dict)}
        needs = {key: _needs(jobs[key]) for key in made}
        needed = {need for key, step in made.items() if step is not None for need in needs[key]}
        kept = {
            key: step if step is not None else self._not_done(key)
            for key, step in made.items()
            if step is not None or key in needed
        }
        for key, step in kept.items():
            present = [kept[need]["name"] for need in needs[key] if need in kept]
            if present:
                step["depends_on"] = present
        if not any(step is not None for step in made.values()):
            return []
        steps = [{"name": step.pop("name"), **_ordered(step)} for step in kept.values()]
        if len(steps) > 1 and not any("depends_on" in step for step in steps):
            return [{"name": self._names.unique("Jobs"), "parallel": steps}]
        return steps

    def _not_done(self, key: str) -> dict[str, Any]:
        name = self._names.unique(key)
        self.left_out.append(f"step '{name}' fails until you write its commands: other steps need it")
        return {"name": name, "shell": NOT_DONE}

    def _job(self, key: str, job: dict[str, Any]) -> dict[str, Any] | None:
        where = f"job '{key}'"
        self.left_out += [f"'{one}' of {where}" for one in job if one not in _OF_A_JOB]
        if "if" in job or not isinstance(job.get("steps"), list):
            self.left_out.append(f"all of {where}: it has a condition or no steps")
            return None
        matrix = self._matrix(job.get("strategy"), where)
        env = self.values(job.get("env"), f"env of {where}")
        inner = StepNames()
        steps = [
            made
            for number, step in enumerate(job["steps"], 1)
            if isinstance(step, dict)
            and (made := self._step(step, f"step {number} of {where}", inner, env, matrix)) is not None
        ]
        if not steps:
            return None
        step: dict[str, Any] = {"name": self._names.unique(str(job.get("name") or key)), "steps": steps}
        if matrix:
            step["matrix"] = matrix
        if isinstance(job.get("timeout-minutes"), int):
            step["timeout"] = f"{job['timeout-minutes']}m"
        return step

    def _matrix(self, strategy: Any, where: str) -> dict[str, list[Any]]:
        written = strategy.get("matrix") if isinstance(strategy, dict) else None
        if strategy is None:
            return {}
        is_literal = isinstance(written, dict) and all(
            re.fullmatch(r"[A-Za-z_]\w*", key)
            and isinstance(values, list)
            and values
            and all(
                isinstance(value, str | int | float | bool) and "${{" not in str(value) for value in values
            )
            for key, values in written.items()
        )
        if not is_literal:
            self.left_out.append(f"'strategy' of {where}: only lists of plain values can be translated")
            return {}
        assert isinstance(written, dict)
        return {key: [_text_of(value) for value in values] for key, values in written.items()}

    def _step(
        self, step: dict[str, Any], where: str, names: StepNames, env: dict[str, str], matrix: dict[str, Any]
    ) -> dict[str, Any] | None:
        shown = f"{where} ({step.get('name') or step.get('uses') or 'run'})"
        secrets: set[str] = set()
        try:
            if "run" not in step or "if" in step:
                raise _LeftOut("it uses an action" if "uses" in step else "it has a condition")
            if not set(step) <= _OF_A_STEP:
                raise _LeftOut("it has keys without a counterpart")
            script = self._replaced(str(step["run"]), matrix, secrets, in_script=True)
            variables = {
                key: self._replaced(_text_of(value), matrix, secrets)
                for key, value in {**env, **(step.get("env") or {})}.items()
            }
        except _LeftOut as reason:
            self.left_out.append(f"{shown}: {reason}")
            return None
        made: dict[str, Any] = {
            "name": names.unique(str(step.get("name") or str(step["run"]).split("\n")[0]))
        }
        made["shell"] = script
        if variables:
            made["env"] = variables
        if secrets:
            made["secrets"] = sorted(secrets)
            self.secrets |= secrets
        if isinstance(step.get("working-directory"), str):
            made["workdir"] = step["working-directory"]
        if isinstance(step.get("timeout-minutes"), int):
            made["timeout"] = f"{step['timeout-minutes']}m"
        if step.get("continue-on-error") is True:
            made["allow_failure"] = True
        return made

    def values(self, env: Any, where: str) -> dict[str, str]:
        """Variables for several steps; those with an expression are omitted."""
        found = {key: _text_of(value) for key, value in env.items()} if isinstance(env, dict) else {}
        self.left_out += [f"'{key}' in {where}" for key, value in found.items() if "${{" in value]
        return {key: value for key, value in found.items() if "${{" not in value}

    def _replaced(
        self, text: str, matrix: dict[str, Any], secrets: set[str], *, in_script: bool = False
    ) -> str:
        def replaced(found: re.Match[str]) -> str:
            known = _KNOWN.fullmatch(found[1])
            if known is None or (known[1] == "matrix" and known[2] not in matrix):
                raise _LeftOut(f"'{found[0]}' has no counterpart")
            kind, name = known[1], known[2]
            if kind == "env":
                if not in_script:
                    raise _LeftOut(f"'{found[0]}' has no counterpart")
                return f"${{{name}}}"
            if kind == "secrets":
                secrets.add(name)
                return f"${{env.{name}}}"
            if kind == "inputs":
                self.inputs.add(name)
            return f"${{{kind}.{name}}}"

        return _EXPRESSION.sub(replaced, text)


def _needs(job: dict[str, Any]) -> list[str]:
    written = job.get("needs") or []
    return [str(need) for need in ([written] if isinstance(written, str) else written)]


def _text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ordered(step: dict[str, Any]) -> dict[str, Any]:
    """Keys in the usual order, the steps last."""
    return {key: step[key] for key in ("depends_on", "matrix", "timeout", "steps", "shell") if key in step}
