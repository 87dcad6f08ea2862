"""Violations of docs/conformance/agent-workflows.md: expressions, files, processes, secrets, agents, the run itself."""

from typing import Final

from tests.planted.edits import after, before, body, drop, start, swap
from tests.planted.faults import Fault, fault

FAULTS: Final[list[Fault]] = [
    fault(
        "D17",
        "a program that is not found fails with 126",
        swap("runtime/tasks/order.py", "NOT_FOUND: Final = 127", "NOT_FOUND: Final = 126"),
    ),
    fault(
        "D17",
        "a condition that cannot be evaluated fails the step with 1",
        swap("machine/attempts.py", "FAILED_BEFORE_START = 125", "FAILED_BEFORE_START = 1"),
    ),
    fault(
        "D17",
        "a step that timed out loses its partial output",
        swap(
            "runtime/tasks/commands.py:CommandTasks._result",
            "timed_out(order.step.timeout, **facts)",
            "timed_out(order.step.timeout)",
        ),
    ),
    fault(
        "D19",
        "a step that was skipped counts as ok",
        swap(
            "machine/values.py:ScopeView.step_is",
            "result.status == 'completed'",
            "result.status != 'failed'",
        ),
    ),
    fault(
        "D19",
        "a step that has not run counts as failed",
        swap(
            "machine/values.py:ScopeView.step_is",
            "if result is None: return False",
            """
            if result is None:
                return state == 'failed'
            """,
        ),
    ),
    fault(
        "D20",
        "`output` keeps the line feeds at its end",
        swap("machine/attempts.py:_named", "value.rstrip('\\n')", "value"),
    ),
    fault(
        "D20",
        "`output` loses all white space at its end",
        swap("machine/attempts.py:_named", "value.rstrip('\\n')", "value.rstrip()"),
    ),
    fault(
        "D21",
        "brackets may nest without end",
        swap("language/expressions.py", "MAX_DEPTH: Final = 64", "MAX_DEPTH: Final = 100000"),
    ),
    fault(
        "D22",
        "the text 'false' counts as false",
        swap("expressions/evaluate.py:truth", "bool(value)", "bool(value) and value != 'false'"),
    ),
    fault(
        "D22",
        "a numeric text is not equal to its number",
        swap(
            "expressions/evaluate.py:_equal",
            "one is not None and one == other",
            "one is not None and type(left) is not str and (type(right) is not str) and one == other",
        ),
    ),
    fault(
        "D22",
        "ordering against null is an error",
        swap("expressions/evaluate.py:_ordered", "if left is None or right is None: return False", "pass"),
    ),
    fault(
        "D22",
        "`or` gives its operand and not a boolean",
        swap(
            "expressions/evaluate.py:_logic",
            "if bool(operand(lookup, work)) is decisive: return decisive",
            """
            value = operand(lookup, work)
            if bool(value) is decisive:
                return value
            """,
        ),
    ),
    fault(
        "D23",
        "what a value holds is filled in again",
        swap(
            "expressions/templates.py:render",
            "text_of(_value(part, lookup))",
            "_again(text_of(_value(part, lookup)), lookup)",
        ),
        after(
            "expressions/templates.py",
            "MAX_LENGTH: Final = ...",
            """
            def _again(text, lookup):
                from podium.language.templates import parse_template

                return render(parse_template(text, lambda one, _start, _end: (one, None)), lookup) if '${' in text else text
            """,
        ),
    ),
    fault(
        "D23",
        "a lone reference becomes text",
        swap(
            "expressions/templates.py:render_value",
            "return _value(text.parts[0], lookup)",
            "return text_of(_value(text.parts[0], lookup))",
        ),
    ),
    fault(
        "D24",
        "a reference in single quotes of a script is not warned about",
        drop("language/scripts.py:parse_script", "unexpanded += _unexpanded(text, found, why, is_namespace)"),
    ),
    fault(
        "D24",
        "a value that no variable can hold is given to a script",
        swap("runtime/tasks/host.py:_checked", "_MAX_VARIABLE // 8", "10 * _MAX_VARIABLE"),
    ),
    fault(
        "D24",
        "a script's values are not in its environment",
        swap("language/tasks.py:_shell", "{**work.env, **script.env}", "work.env"),
    ),
    fault(
        "D24",
        "a list that is spread is one argument",
        swap(
            "expressions/templates.py:render_arguments",
            "_spread(text, lookup) if is_spread(text) else (render(text, lookup),)",
            "(' '.join(_spread(text, lookup)),) if is_spread(text) else (render(text, lookup),)",
        ),
    ),
    fault(
        "D24",
        "a value can add words to a command",
        swap(
            "expressions/templates.py:render_arguments",
            "_spread(text, lookup) if is_spread(text) else (render(text, lookup),)",
            "_spread(text, lookup) if is_spread(text) else "
            "(render(text, lookup),) if isinstance(text, str) else render(text, lookup).split(' ')",
        ),
    ),
    fault(
        "D24",
        "shell syntax is not warned about",
        swap(
            "language/values.py:command_of",
            "word.bare and (word.text in _SHELL_WORDS or _is_unexpanded(word.text, program))",
            "False",
        ),
    ),
    fault(
        "D25",
        "a reference without a value is empty text in a command",
        swap(
            "expressions/templates.py:_looked_up",
            "raise ValueMissing(...)",
            "return ''",
        ),
    ),
    fault(
        "D25",
        "an unknown context key is null",
        swap(
            "language/references.py:_Resolving._context",
            "if key not in workflow.context: ...",
            """
            if key not in workflow.context:
                return Kinds.ANY
            """,
        ),
    ),
    fault(
        "D28",
        "`.cancel` is left in the directory",
        drop("engines/driving.py:_keep_up", "directory.cancel_marker.unlink(missing_ok=True)"),
    ),
    fault(
        "D28",
        "a second interrupt is one more cancel",
        swap(
            "cli/interrupts.py:interruptible",
            "under_way.cancel('interrupted', force=asked > 1)",
            "under_way.cancel('interrupted')",
        ),
        swap("machine/calls.py:cancel", "force or m.cancels > 0", "force"),
    ),
    fault(
        "D28",
        "a forced stop waits for the grace time",
        swap(
            "runtime/tasks/families.py:stop", "loop.time() >= deadline or forced()", "loop.time() >= deadline"
        ),
    ),
    fault(
        "D29",
        "a workflow that is refused by its concurrency limit exits with 65",
        swap("cli/app.py", "LOCKED: Final = 75", "LOCKED: Final = 65"),
    ),
    fault(
        "D29",
        "the program of a provider is not looked up before the run",
        swap(
            "runtime/preflight_agents.py:_problems",
            "program is not None and not _has_program(program, found, around)",
            "False",
        ),
    ),
    fault(
        "D30",
        "a step whose fingerprint the same run has seen is not carried out again",
        swap(
            "runtime/reusing.py:cached_results",
            "earlier.identity.run_id == identity.run_id or earlier.created_at > run.created_at",
            "earlier.created_at > run.created_at",
        ),
    ),
    fault(
        "D31",
        "a run continues with a workflow of another structure",
        swap("operations/structure.py:structural_changes", "return ...", "return []"),
    ),
    fault(
        "D31",
        "a loop continues with fewer items than have run",
        swap("operations/structure.py:_Progress.is_kept_by", "path in other.scopes and ...", "True"),
    ),
    fault(
        "D31",
        "what was done for an item is taken for another one",
        swap("operations/structure.py:_Progress.is_kept_by", "_same(...)", "True"),
    ),
    fault(
        "D31",
        "a completed run is reopened",
        swap("engines/local.py:LocalEngine._drive_here", "await patiently(reopening.is_completed)", "False"),
    ),
    fault(
        "D31",
        "a run continues without the variables of its environment file",
        swap("operations/env_files.py:files_of_run", "if missing: ...", "pass"),
    ),
    fault(
        "D31",
        "the digest of an environment file can be computed without the key",
        swap(
            "operations/env_files.py:EnvFile.digest",
            "hmac.new(key, content, 'sha256')",
            "hmac.new(b'podium', content, 'sha256')",
        ),
    ),
    fault(
        "D32",
        "another process with the number of a dead holder is taken for it",
        swap(
            "runtime/holders.py:_process",
            "seen is not None and seen.began == holder.began and not seen.is_gone",
            "seen is not None and not seen.is_gone",
        ),
    ),
    fault(
        "D32",
        "the lock file says nothing of its holder",
        drop("runtime/lock.py:RunLock.record_lease", "os.pwrite(...)"),
    ),
    fault(
        "D33",
        "a missing secret is found when its step runs",
        swap("runtime/preflight.py:_secret_problems", "not around.secrets.get(name)", "False"),
    ),
    fault(
        "D33",
        "the values of secrets are part of RunStarted",
        before(
            "engines/start.py:start_facts",
            "return ...",
            "facts = {**facts, 'secrets': dict(host.secrets)}",
        ),
    ),
    fault(
        "D34",
        "every step gets all secrets",
        swap("runtime/tasks/host.py:TaskHost.of", "name not in hidden", "True"),
    ),
    fault(
        "D34",
        "`env_policy: minimal` gives everything",
        swap("runtime/tasks/host.py:TaskHost.environment_of", "work.env_policy == 'minimal'", "False"),
    ),
    fault(
        "D34",
        "agents inherit everything",
        swap("language/tasks.py:_agent", "_POLICY_OF_AGENTS", "None"),
    ),
    fault(
        "D34",
        "children inherit our own settings",
        swap("environment.py:inheritable", "not name.startswith(_OURS)", "True"),
    ),
    fault(
        "D35",
        "a secret of five characters is accepted",
        swap("runtime/preflight.py:length_problem", "is_maskable(value)", "True"),
    ),
    fault(
        "D35",
        "a secret of five characters and a space is accepted",
        swap("log/redaction.py:is_maskable", "value.strip()", "value"),
    ),
    fault(
        "D35",
        "a secret without the white space around it is shown",
        swap(
            "log/redaction.py:Redactor.__init__",
            "maskable | {value.strip() for value in maskable}",
            "maskable",
        ),
    ),
    fault(
        "D35",
        "a secret in base64 is shown",
        drop("log/redaction.py:_forms", "yield from _base64_forms(raw)"),
    ),
    fault(
        "D35",
        "a secret across the border of two pieces is shown",
        swap("log/redaction.py:_Search._find", "len(data) if last else self._open_end(data)", "len(data)"),
    ),
    fault(
        "D35",
        "`env_set` is true for an empty variable",
        swap(
            "runtime/tasks/dispatch.py:RunTasks.ask",
            "bool(self._host.readable.get(question.name) or self._host.secrets.get(question.name))",
            "question.name in self._host.environment or question.name in self._host.secrets",
        ),
    ),
    fault(
        "D36",
        "an output is cut in the middle of a line",
        swap(
            "runtime/tasks/cutting.py:_whole_lines",
            "content[:content.rfind(_NEWLINE) + 1] or content",
            "content",
        ),
    ),
    fault(
        "D36",
        "a cut output is not warned about",
        swap("runtime/tasks/truncate.py:fitted", "payload.get('truncated')", "False"),
    ),
    fault(
        "D36",
        "a step that wrote too much fails with the code of any other",
        swap(
            "runtime/tasks/commands.py:CommandTasks._result",
            "failed(ended.code or 1, out.exceeding.error.code, str(out.exceeding.error), **facts)",
            "failed(ended.code or 1, 'EXIT_CODE', ended.told, **facts)",
        ),
    ),
    fault(
        "D36",
        "`output_file` gets what the event shows",
        swap(
            "runtime/tasks/output.py:Output.write",
            "self._whole.write(chunk)",
            "self._whole.write(chunk[: max(0, self._keep - self._came)])",
        ),
    ),
    fault(
        "D37",
        "what is not UTF-8 is left out of the state",
        swap(
            "runtime/tasks/output.py:Output.text",
            "self.kept.decode('utf-8', 'replace')",
            "self.kept.decode('utf-8', 'ignore')",
        ),
    ),
    fault(
        "D38",
        "a link may lead out of its root",
        swap(
            "runtime/rundir.py:inside",
            "(root / path).resolve()",
            "Path(os.path.normpath(root.resolve() / path))",
        ),
    ),
    fault(
        "D38",
        "an input file is looked for in the workspace first",
        swap(
            "runtime/tasks/paths.py:input_file",
            "(host.directory.artifacts, host.workspace)",
            "(host.workspace, host.directory.artifacts)",
        ),
    ),
    fault(
        "D39",
        "files with the same stem share a temporary name",
        swap(
            "runtime/rundir.py:NewFile.__init__",
            "target.with_name(f'.{target.name[:40]}.{uuid4().hex[:12]}{_TEMPORARY}')",
            "target.with_name(f'.{target.stem[:40]}{_TEMPORARY}')",
        ),
    ),
    fault(
        "D39",
        "leftovers of a dead process stay",
        body("runtime/rundir.py:RunDirectory.remove_leftovers", "pass"),
    ),
    fault(
        "D39",
        "`state.json` is written for every event",
        swap(
            "runtime/state_file.py:StateFile.write_if_due",
            "self._is_behind and self._now() >= self._next_write",
            "self._is_behind",
        ),
    ),
    fault(
        "D40",
        "only the main process is ended",
        swap(
            "runtime/tasks/families.py:Family._alive_among",
            "{self._main} | proc.descendants(self._main)",
            "{self._main}",
        ),
    ),
    fault(
        "D40",
        "a family that ignores TERM is left alone",
        swap(
            "runtime/tasks/families.py:stop",
            "kill(members)",
            "return alive",
        ),
    ),
    fault(
        "D41",
        "`yes` and `no` are booleans",
        swap(
            "language/shapes.py:Checker._check_flag",
            "isinstance(node.value, bool)",
            "isinstance(node.value, bool) or node.text in _FLAGS",
        ),
    ),
    fault(
        "D41",
        "of two equal keys the last one counts",
        swap("language/reader.py:_Composer._may_be_key", "key.text in entries", "False"),
    ),
    fault(
        "D42",
        "unknown keys are ignored",
        swap(
            "language/shapes.py:Checker._check_record",
            "key not in fields and not key.startswith(OWN_KEY)",
            "False",
        ),
    ),
    fault(
        "D42",
        "of two actions the first is taken",
        swap("language/declaring.py:_action", "len(actions) > 1", "False"),
    ),
    fault(
        "D42",
        "a condition may have two keys",
        swap("language/shapes.py:Checker._check_record", "len(node.entries) != 1", "not node.entries"),
    ),
    fault(
        "D45",
        "memory is not limited",
        swap("runtime/tasks/launcher.py:main", "_limit(resource.RLIMIT_AS, memory, memory)", "pass"),
    ),
    fault(
        "D45",
        "K is 1024 bytes",
        swap("language/tasks.py", "1024 if i else 1000", "1024"),
    ),
    fault(
        "D47",
        "two branches may write the same file",
        swap(
            "language/write_conflicts.py:check_write_conflicts",
            "other is not None and _concurrently(scope, other, number)",
            "False",
        ),
    ),
    fault(
        "D47",
        "`max_parallel` is ignored",
        swap(
            "machine/task_queue.py:TaskQueue.has_room",
            "len(self._running) < self._limit",
            "True",
        ),
    ),
    fault(
        "D47",
        "branches are not known by their plain names",
        swap(
            "machine/values.py:find_result",
            "around.block.branches.get(step) is not None",
            "False",
        ),
    ),
    fault(
        "D48",
        "a run that timed out is failed",
        swap("runtime/ends.py", "_TIMED_OUT: Final = 3", "_TIMED_OUT: Final = 99"),
    ),
    fault(
        "D48",
        "a run that waits for a person is running",
        swap(
            "runtime/state_fold.py:StateFold.state", "'waiting' if state.asking else 'running'", "'running'"
        ),
    ),
    fault(
        "D49",
        "after a crash events are in the journal twice",
        swap(
            "runtime/journal.py:Journal.__init__", "_seq_of_line(for_programs, mark.for_programs, whole)", "0"
        ),
        drop("runtime/journal.py:Journal.__init__", "if not self._seen: ..."),
    ),
    fault(
        "D49",
        "`workflow.jsonl` does not name the step",
        swap("runtime/journal.py:_line", "record.step_id", "None"),
    ),
    fault(
        "D50",
        "the prompt is an argument of the program",
        swap(
            "providers/claude.py:Claude.prepare",
            "(*argv, *settings.args)",
            "(*argv, *settings.args, request.prompt)",
        ),
    ),
    fault(
        "D51",
        "problems of a prompt file are reported with the name of the workflow",
        swap(
            "language/tasks.py:_text_of_file",
            "Report(Source(name, text))",
            "Report(Source(context.file, text))",
        ),
    ),
    fault(
        "D52",
        "an empty answer with exit code 0 is a success",
        swap("providers/results.py:why_not", "not text.strip() and structured is None", "False"),
    ),
    fault(
        "D52",
        "denied tools are only recorded",
        swap("providers/results.py:why_not", "denials and not request.settings.allow_denials", "False"),
    ),
    fault(
        "D53",
        "agents may only read unless the step says otherwise",
        swap(
            "plan/plan.py:Agent",
            "access: Literal['read', 'edit', 'full'] = 'edit'",
            "access: Literal['read', 'edit', 'full'] = 'read'",
        ),
    ),
    fault(
        "D53",
        "a setting that a provider does not have is ignored without a word",
        body("providers/settings.py:ignored", "return []"),
    ),
    fault(
        "D54",
        "a missing input file is empty",
        swap("runtime/tasks/paths.py:input_file", "if found is None or not found.is_file(): ...", "pass"),
    ),
    fault(
        "D54",
        "`input_files` takes only its first",
        swap(
            "language/tasks.py:_input_files",
            "_texts(several, names, Place.STORED)",
            "_texts(several, names, Place.STORED)[:1]",
        ),
    ),
    fault(
        "D55",
        "`catch` is an unknown key like any other",
        swap("language/shapes.py:Checker._meant", "key in shape.mistaken", "False"),
    ),
    fault(
        "D56",
        "version 1.0 keeps as much output as 2.0",
        swap(
            "language/workflow.py:_Reading._workflow",
            "_COMPATIBLE_OUTPUT if scalar_at(root, 'version') == '1.0' else None",
            "None",
        ),
    ),
    fault(
        "D56",
        "version 1.0 is not compatible",
        swap("language/workflow.py:_discipline", "version == '1.0' or strict is False", "strict is False"),
    ),
    fault(
        "D58",
        "the schema takes keys that the loader does not know",
        swap("language/json_schema.py:_record", "'additionalProperties'", "'additionalProps'"),
    ),
    fault(
        "D58",
        "the schema asks for no key",
        swap("language/json_schema.py:_record", "if required: ...", "pass"),
    ),
    fault(
        "D59",
        "body steps of a loop also have an entry of their own",
        swap("runtime/state_tree.py:shown", "node.shown()", "node.facts"),
    ),
    fault(
        "D59",
        "a skipped step has no entry",
        start(
            "runtime/state_fold.py:StateFold._take_step",
            """
            if record.event_type == EventType.STEP_SKIPPED:
                return
            """,
        ),
    ),
    fault(
        "D59",
        "old failures of a long loop are dropped",
        swap(
            "runtime/state_tree.py:Loop._forget_the_oldest",
            "self.has_failed(index) and self.old_failures < MAX_ITERATIONS",
            "False",
        ),
    ),
    fault(
        "D60",
        "processes of a killed runner are left running",
        swap("runtime/drive.py:Driver._start_again", "if started: ...", "pass"),
    ),
    fault(
        "D60",
        "processes of a run with the same id in another folder are stopped, too",
        swap(
            "runtime/tasks/families.py:of_run",
            "[f'PODIUM_RUN_ID={run_id}'.encode(), f'PODIUM_RUN_DIR={directory}'.encode()]",
            "[f'PODIUM_RUN_ID={run_id}'.encode()]",
        ),
    ),
    fault(
        "D61",
        "agents have the time limit of commands",
        swap("language/tasks.py", "3600", "300"),
    ),
    fault(
        "D61",
        "loops get the default timeout of the workflow",
        swap(
            "language/blocks.py:_timeout",
            "step.action in DEFAULT_TIMEOUT and context.tasks.default_timeout is not None",
            "context.tasks.default_timeout is not None",
        ),
    ),
    fault(
        "D61",
        "blocks and loops have a default timeout of ten minutes",
        swap(
            "language/blocks.py:_timeout",
            "DEFAULT_TIMEOUT.get(step.action)",
            "DEFAULT_TIMEOUT.get(step.action, 600)",
        ),
    ),
    fault(
        "D62",
        "`run.status` may be named before the end",
        swap(
            "language/references.py:_Resolving._run",
            "{**FIELDS_OF_THE_RUN, **FIELDS_OF_THE_END} if ended else FIELDS_OF_THE_RUN",
            "{**FIELDS_OF_THE_RUN, **FIELDS_OF_THE_END}",
        ),
    ),
    fault(
        "D62",
        "children do not know their attempt",
        drop(
            "runtime/tasks/host.py:TaskHost._add_given",
            "environment['PODIUM_ATTEMPT'] = str(order.attempt)",
        ),
    ),
    fault(
        "D63",
        "a description changes the version of a plan",
        swap(
            "plan/loading.py:plan_of",
            "canonical_sha256(without_metadata)[:16]",
            "canonical_sha256({**without_metadata, 'description': description})[:16]",
        ),
    ),
    fault(
        "D63",
        "the text of a prompt file is not part of the plan",
        swap(
            "language/tasks.py:_prompt",
            "Prompt(text=_text_of_file(found.name, text, names, context))",
            "Prompt(file=template)",
        ),
    ),
    fault(
        "D64",
        "`repeat_until` is a `while`",
        swap("language/blocks.py:_loop", "step.action == 'repeat_until'", "False"),
    ),
    fault(
        "D64",
        "values of a form may be of any type",
        swap("plan/declared.py:problem_of", "not fits(wanted.type, value)", "False"),
    ),
    fault(
        "D64",
        "unknown fields of a form are taken",
        swap("plan/declared.py:form_problem", "if wanted is None: ...", "if wanted is None:\n    continue"),
    ),
    fault(
        "D64",
        "one run more than its limit works with a concurrency key",
        swap("stores/rules.py:has_slot", "others + ahead < slots", "others + ahead <= slots"),
    ),
    fault(
        "D64",
        "keys that start with `x-` are unknown",
        swap(
            "language/shapes.py:Checker._check_record",
            "key not in fields and not key.startswith(OWN_KEY)",
            "key not in fields",
        ),
    ),
    fault(
        "D64",
        "`set` replaces the whole context",
        swap(
            "machine/attempts.py:set_context",
            "workflow_of(scope).context.update(values)",
            "workflow_of(scope).context = values",
        ),
    ),
    fault(
        "D67",
        "a secret may be used where values are stored",
        swap("language/references.py:_Resolving._check_secret", "self._place is Place.STORED", "False"),
    ),
    fault(
        "D67",
        "a secret input may be used where values are stored",
        swap("language/references.py:_Resolving._secret_input", "self._place is Place.STORED", "False"),
    ),
    fault(
        "D67",
        "a secret in an argument is not warned about",
        swap(
            "language/references.py:_Resolving._warn_if_visible",
            "self._place is not Place.PRIVATE",
            "self._place is Place.PROMPT",
        ),
    ),
    fault(
        "D67",
        "steps that nothing leads to are errors",
        swap("language/blocks.py:_check_ways", "problems.warning", "problems.error", nth=1),
    ),
    fault(
        "D68",
        "`http_allow` is ignored",
        swap(
            "runtime/tasks/addresses.py:check_host",
            "allowed and not any(_fits(host, pattern.lower()) for pattern in allowed)",
            "False",
        ),
    ),
    fault(
        "D68",
        "an IPv4 address inside an IPv6 address is not looked at",
        swap("plan/addresses.py:meanings", "if address.ipv4_mapped is not None: ...", "pass"),
    ),
    fault(
        "D68",
        "a redirect is not checked",
        swap(
            "runtime/tasks/http.py:_exchange",
            "check_host(request.url.host, prepared.allowed)",
            "_ == 0 and check_host(request.url.host, prepared.allowed)",
        ),
    ),
    fault(
        "D69",
        "functions of the Python API are looked for in modules",
        swap("runtime/tasks/python.py:PythonTasks.begin", "self._host.functions.get(body.function)", "None"),
        swap(
            "runtime/tasks/dispatch.py:RunTasks._begin", "body.function not in self._host.functions", "True"
        ),
    ),
    fault(
        "D69",
        "every call has a process of its own",
        start(
            "runtime/tasks/workers.py:Workers.give_back",
            """
            worker.leave()
            return
            """,
        ),
    ),
    fault(
        "R052",
        "a chain of comparisons compares with its first value",
        swap("expressions/evaluate.py:_chain", "left = right", "pass"),
    ),
    fault(
        "R068",
        "`end` in a branch ends only that branch",
        swap(
            "machine/routing.py:follow",
            "m.rules.end_workflow(m, scope, Verdict('completed'))",
            "end_scope(m, scope, Verdict('completed'))",
        ),
    ),
    fault(
        "R068",
        "`error` is a success",
        swap(
            "machine/routing.py:follow",
            "m.rules.end_workflow(m, scope, Verdict('failed', FAILED, 'error', message))",
            "m.rules.end_workflow(m, scope, Verdict('completed'))",
        ),
    ),
    fault(
        "R069",
        "a run without a transition exits with 1",
        swap("machine/routing.py", "NO_TRANSITION = 4", "NO_TRANSITION = 1"),
    ),
    fault(
        "R069",
        "a cancelled run exits with 130",
        swap("machine/calls.py", "CANCELLED: Final = 2", "CANCELLED: Final = 130"),
    ),
    fault(
        "R071",
        "generated ids are too long to be typed",
        swap("engines/run_ids.py", "_MIN_DIGITS: Final = 4", "_MIN_DIGITS: Final = 32"),
    ),
    fault(
        "R071",
        "the start of an id that several runs have is the newest of them",
        swap("operations/run_names.py:resolve_run", "len(found) > 1", "False"),
    ),
    fault(
        "R071",
        "an id that is the start of another one is ambiguous",
        swap("operations/run_names.py:resolve_run", "await _is_id_of_visible_run(...)", "False"),
    ),
    fault(
        "R072",
        "the state has a value for each secret",
        swap(
            "runtime/state_fold.py:StateFold.__init__",
            "list(workflow.secrets)",
            "dict.fromkeys(workflow.secrets, '***')",
        ),
    ),
    fault(
        "R074",
        "the duration of a step is in milliseconds",
        swap("runtime/state_tree.py:Node.end", "round(took / 1000, 6)", "round(took, 6)"),
    ),
    fault(
        "R078",
        "what is in the files of a step is not part of its fingerprint",
        swap(
            "runtime/fingerprints.py:Fingerprints.of", "await self._digests.of(files) if files else {}", "{}"
        ),
    ),
    fault(
        "R078",
        "the value of a secret is part of a fingerprint",
        swap(
            "runtime/fingerprints.py:Fingerprints._mark",
            "_without_secrets(order, frozenset(getattr(body, 'work', PLAIN_WORK).secrets))",
            "order.lookup",
        ),
    ),
    fault(
        "R080",
        "a lock file that cannot be read is believed to be held",
        swap(
            "runtime/lock.py:RunLock._try",
            "not self._is_current(file)",
            "not self._is_current(file) or (self._path.stat().st_size and not _read(self._path))",
        ),
    ),
    fault(
        "R081",
        "a lock is waited for for a minute",
        swap("runtime/lock.py", "WAIT_SECONDS: Final = 10.0", "WAIT_SECONDS: Final = 60.0"),
    ),
    fault(
        "R082",
        "all runs of a folder share one lock",
        swap("runtime/rundir.py:RunDirectory.lock", "self.path / '.lock'", "self.path.parent / '.lock'"),
        # Else the lease, which outranks the lock, lets the second run pass.
        swap("runtime/lock.py:RunLock.take", "await claim()", "None"),
    ),
    fault(
        "R084",
        "SIGTERM ends the process without a word",
        swap(
            "cli/interrupts.py:interruptible",
            "(signal.SIGINT, signal.SIGTERM)",
            "(signal.SIGINT,)",
        ),
    ),
    fault(
        "R085",
        "the cancel mark is removed and not acted on",
        drop("engines/driving.py:_keep_up", "control.cancel('asked for by .cancel', by=owner)"),
    ),
    fault(
        "R086",
        "the condition of a step is asked again for every try",
        swap("machine/attempts.py:try_again", "m.later('start', visit)", "m.later('begin', visit)"),
    ),
    fault(
        "R088",
        "the traceback of a defect is lost",
        drop(
            "runtime/tasks/dispatch.py:RunTasks._failed_by",
            "write_new(self._host.directory.step_file(order.path, order.attempt, 'err'), trace.encode())",
        ),
    ),
    fault(
        "R093",
        "input files come before the prompt",
        swap(
            "runtime/tasks/prompting.py:prompt_of", "'\\n\\n'.join(parts)", "'\\n\\n'.join(reversed(parts))"
        ),
    ),
    fault(
        "R093",
        "what an input file holds is filled in",
        swap(
            "runtime/tasks/prompting.py:prompt_of",
            "_input(name, body.work.inject, host)",
            "_filled_in(_input(name, body.work.inject, host), lookup)",
        ),
        after(
            "runtime/tasks/prompting.py",
            "_MAX_INPUT: Final = ...",
            """
            def _filled_in(text, lookup):
                from podium.language.templates import parse_template

                return render(parse_template(text, lambda one, _start, _end: (one, None)), lookup)
            """,
        ),
    ),
    fault(
        "R094",
        "providers that a workflow declares are not known",
        swap(
            "language/workflow.py:_Reading._workflow",
            "(*BUILT_IN_PROVIDERS, *declared_providers)",
            "BUILT_IN_PROVIDERS",
        ),
    ),
    fault(
        "R094",
        "providers of installed packages are not known",
        swap(
            "language/tasks.py:check_provider",
            "name not in known.names and not problems.is_enough() and name not in (installed := known.installed())",
            "name not in known.names and not problems.is_enough() and bool(installed := known.installed() or (name,))",
        ),
    ),
    fault(
        "R001",
        "a step may decide about its own run",
        body("operations/signal_checks.py:check_caller", "pass"),
    ),
    fault(
        "R008",
        "runs whose ids start alike share a folder",
        swap("runtime/rundir.py:RunDirectory.__init__", "runs / run_id", "runs / run_id[:8]"),
    ),
    fault(
        "R016",
        "`output_file` means the folder of the run",
        swap(
            "runtime/tasks/paths.py:OutputFile._target",
            "inside(self._directory.artifacts, self._name, what='output_file')",
            "inside(self._directory.path, self._name, what='output_file')",
        ),
    ),
    fault(
        "R016",
        "`file_exists` looks into the folder of the run",
        swap(
            "runtime/tasks/dispatch.py:RunTasks.ask",
            "self._host.directory.artifacts",
            "self._host.directory.path",
        ),
    ),
    fault(
        "R018",
        "keys that are required may be left out",
        swap(
            "language/shapes.py:Checker._check_record",
            "key not in node.entries and not self.has_lost(node, key)",
            "False",
        ),
    ),
    fault(
        "R024",
        "the schema asks for no key",
        swap("language/json_schema.py:_record", "if required: ...", "pass"),
    ),
    fault(
        "R025",
        "names of steps have no spaces",
        swap(
            "language/declaring.py:_check_name",
            "bad is not None or not text.isprintable()",
            "bad is not None or not text.isprintable() or ' ' in text",
        ),
    ),
    fault(
        "R039",
        "`catch` is an unknown key like any other",
        swap("language/shapes.py:Checker._meant", "key in shape.mistaken", "False"),
    ),
    fault(
        "R041",
        "when a step ended cannot be named",
        swap("language/namespaces.py", "'completed_at'", "'ended_at'"),
    ),
    fault(
        "R041",
        "when a step ended is not known to later steps",
        swap("machine/attempts.py:result_of", "keeps(node, 'completed_at')", "False"),
    ),
]
