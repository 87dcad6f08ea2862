"""Violations of docs/conformance/agent-workflows.md that show when a workflow is read as a whole or runs."""

from typing import Final

from tests.planted.edits import body, drop, reword, start, swap
from tests.planted.faults import Fault, fault

_WORKFLOW: Final = "language/workflow.py"
_REFERENCES: Final = "language/references.py:_Resolving"
_COMMANDS: Final = "runtime/tasks/commands.py"
_OUTPUT: Final = "runtime/tasks/output.py:Output"
_STATE: Final = "runtime/state_fold.py:StateFold"
_LOCK: Final = "runtime/lock.py:RunLock"

FAULTS: Final[list[Fault]] = [
    fault(
        "R003",
        "shell syntax is not warned about",
        swap(
            "language/values.py:command_of",
            "word.bare and (word.text in _SHELL_WORDS or _is_unexpanded(word.text, program))",
            "False",
        ),
    ),
    fault(
        "R007",
        "a log line is not JSON",
        swap("runtime/journal.py:_line", "msgspec.json.encode(line)", "repr(line).encode()"),
    ),
    fault(
        "R011",
        "prompt files are not read",
        swap("language/tasks.py:_prompt", "found is None or text is None", "True"),
    ),
    fault(
        "R017",
        "prompt files are not read",
        swap("language/tasks.py:_prompt", "found is None or text is None", "True"),
    ),
    fault("R012", "no state is written", body("runtime/state_file.py:StateFile.write", "return")),
    fault("R075", "no state is written", body("runtime/state_file.py:StateFile.write", "return")),
    fault(
        "R013",
        "nothing is written for people",
        drop(
            "runtime/journal.py:Journal.__call__", "self._for_people.add([_line(record) for record in new])"
        ),
    ),
    fault(
        "R087",
        "a log line does not say which step it is about",
        swap("runtime/journal.py:_line", "record.step_id", "None"),
    ),
    fault("R014", "the lock file stays", drop(f"{_LOCK}.release", "self._path.unlink(missing_ok=True)")),
    fault(
        "R015",
        "a file is written under its own name",
        swap("runtime/rundir.py:NewFile.__init__", "self._temporary = ...", "self._temporary = target"),
    ),
    fault(
        "R019",
        "there is a version 3.0",
        swap("language/grammar.py", "('1.0', '2.0')", "('1.0', '2.0', '3.0')"),
    ),
    fault(
        "R022",
        "strict_flow is ignored",
        swap(f"{_WORKFLOW}:_discipline", "'strict' if strict else 'implied'", "'implied'"),
    ),
    fault(
        "R023",
        "the timeout of a run is ignored",
        swap(f"{_WORKFLOW}:_Reading._workflow", "scalar_at(root, 'timeout')", "None"),
    ),
    fault(
        "D09",
        "the timeout of a run is ignored",
        swap(f"{_WORKFLOW}:_Reading._workflow", "scalar_at(root, 'timeout')", "None"),
    ),
    fault(
        "R027",
        "a command without words is accepted",
        swap("language/values.py:command_of", "not words", "False"),
    ),
    fault(
        "D24",
        "a command without words is accepted",
        swap(
            "language/values.py:command_of",
            "word.bare and (word.text in _SHELL_WORDS or _is_unexpanded(word.text, program))",
            "False",
        ),
    ),
    fault(
        "R040",
        "the context is two keys deep at most",
        start(f"{_REFERENCES}._context", "if len(self._path) > 3: return self._unknown('too deep', '')"),
    ),
    fault(
        "R042",
        "the variable of a loop is unknown",
        swap(f"{_REFERENCES}._kinds", "scope.variable == first", "False"),
    ),
    fault(
        "R058",
        "an inner loop does not hide the outer one",
        swap(f"{_REFERENCES}._loop", "self._path[place] == 'parent'", "False"),
    ),
    fault(
        "R043",
        "places of items are unknown",
        swap(
            "language/namespaces.py",
            "{'index': ..., 'total': ..., 'first': ..., 'last': ...}",
            "{'index': Kinds.NUMBER}",
        ),
    ),
    fault(
        "R044",
        "the time that is left is unknown",
        reword("language/namespaces.py", "remaining_time", "time_left"),
    ),
    fault("R067", "`_start` is not the entry", swap(f"{_WORKFLOW}:_main", "step.step_id == START", "False")),
    fault("D26", "`_start` is not the entry", swap(f"{_WORKFLOW}:_main", "step.step_id == START", "False")),
    fault(
        "D66",
        "`finally` is ignored",
        swap(f"{_WORKFLOW}:_cleanup", "not isinstance(steps, Sequence)", "True"),
    ),
    fault(
        "R073",
        "a paused run is running",
        swap(
            f"{_STATE}.state",
            "'paused' if state.paused else 'waiting' if state.asking else 'running'",
            "'running'",
        ),
    ),
    fault(
        "D48",
        "a run out of time has failed",
        swap("runtime/ends.py:end_status", "status == 'failed' and end.exit_code == _TIMED_OUT", "False"),
    ),
    fault(
        "R079",
        "the lock does not say which process holds it",
        swap(f"{_LOCK}.record_lease", "os.getpid()", "0", nth=1),
    ),
    fault("R083", "leftovers stay", body("runtime/rundir.py:RunDirectory.remove_leftovers", "return")),
    fault(
        "R076",
        "everything is kept",
        swap(f"{_OUTPUT}._put", "len(self.kept) < self._keep", "True"),
        swap(f"{_OUTPUT}._put", "chunk[:self._keep - len(self.kept)]", "chunk"),
        swap(f"{_OUTPUT}.text", "self.size > most", "False"),
    ),
    fault("D36", "what is too long is not cut", swap(f"{_OUTPUT}.text", "self.size > most", "False")),
    fault(
        "D35",
        "secrets are not masked",
        swap(f"{_OUTPUT}.__init__", "redactor.stream() if redactor is not None else None", "None"),
    ),
    fault(
        "D20",
        "line feeds at the end are kept",
        swap("machine/attempts.py:_named", "value.rstrip('\\n')", "value"),
    ),
    fault(
        "R077",
        "a timed-out step has its own exit code",
        swap(f"{_COMMANDS}:_until_end", "first == 'timed_out'", "False"),
    ),
    fault(
        "D17",
        "a missing program has another code",
        swap(f"{_COMMANDS}:_not_started", "NOT_FOUND", "NOT_EXECUTABLE"),
    ),
    fault(
        "R089",
        "a minimal environment has everything",
        swap("runtime/tasks/host.py:TaskHost.environment_of", "work.env_policy", "'inherit'"),
    ),
    fault("D30", "a cached step is always taken over", swap("runtime/fingerprints.py", "sha256", "sha1")),
    fault(
        "D37",
        "wrong bytes are dropped",
        swap(
            f"{_OUTPUT}.text", "self.kept.decode('utf-8', 'replace')", "self.kept.decode('utf-8', 'ignore')"
        ),
    ),
    fault(
        "D38",
        "a path may lead out",
        swap("runtime/rundir.py:inside", "not resolved.is_relative_to(base)", "False"),
    ),
    fault("D39", "leftovers stay", body("runtime/rundir.py:RunDirectory.remove_leftovers", "return")),
    fault(
        "D56",
        "version 1.0 is not compatible",
        swap(f"{_WORKFLOW}:_discipline", "version == '1.0' or strict is False", "strict is False"),
    ),
    fault("D67", "a secret may be used in the context", start(f"{_WORKFLOW}:_check_no_secrets", "return")),
    fault(
        "D62",
        "`run` knows its end everywhere",
        swap(f"{_REFERENCES}._run", "any((around.kind == 'finally' for around in scope.outwards()))", "True"),
    ),
    fault(
        "D49",
        "a journal writes events again",
        swap("runtime/journal.py:Journal.__call__", "record.run_seq > self._seen", "True"),
    ),
    fault(
        "D63",
        "a revision is ignored",
        swap(
            "plan/loading.py:plan_of",
            "revision or canonical_sha256(without_metadata)[:16]",
            "canonical_sha256(without_metadata)[:16]",
        ),
    ),
    fault(
        "D70",
        "a file may call itself",
        swap(f"{_WORKFLOW}:_Reading._called", "self._is_open(found)", "False"),
    ),
    fault(
        "R090",
        "claude is asked for another format",
        swap("providers/claude.py:Claude.prepare", "'stream-json'", "'json'"),
    ),
    fault(
        "R091",
        "the prompt is an argument",
        swap(
            "providers/claude.py:Claude.prepare",
            "(*argv, *settings.args)",
            "(*argv, request.prompt, *settings.args)",
        ),
    ),
    fault(
        "R092",
        "a flag of claude has another name",
        swap("providers/claude.py:Claude.prepare", "'--max-turns'", "'--turns'"),
    ),
    fault(
        "D50",
        "claude never resumes a conversation",
        swap("providers/claude.py:Claude.prepare", "request.resume", "None", nth=1),
    ),
]
