"""What single steps do: commands, agents, requests, functions, approvals, `set`."""

import pytest

from podium.expressions.types import DataList, DataMap, Reference, Template
from podium.plan.plan import (
    Agent,
    Approval,
    Budget,
    Command,
    Expect,
    FormField,
    Http,
    Limits,
    Prompt,
    Python,
    Retry,
    Set,
)
from tests.unit.workflows.reading import argv, body, errors, reading, step, warnings, workflow


def a_step(rest: str, head: str = "context: {}") -> str:
    return f"{head}\nsteps:\n  - name: A\n    {rest}\n"


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.rule("R003", "R027", "D24")
def test_a_text_is_split_into_words_and_a_list_is_taken_as_it_is() -> None:
    assert argv(a_step("""command: make 'all of it' "a b" c\\ d""")) == ("make", "all of it", "a b", "c d")
    assert argv(a_step("command: [make, all of it, 3, 1.50, true]")) == (
        "make",
        "all of it",
        "3",
        "1.50",
        "true",
    )


@pytest.mark.rule("R027", "D24")
def test_words_are_split_before_values_are_put_into_them() -> None:
    text = a_step(
        "command: deploy ${context.the name} --to='${context.x y}'",
        'context: {the name: "a b; rm", "x y": 1}',
    )
    assert argv(text) == (
        "deploy",
        Template((Reference(("context", "the name")),)),
        Template(("--to=", Reference(("context", "x y")))),
    )


@pytest.mark.rule("D24")
def test_a_list_is_spread_only_as_a_whole_element() -> None:
    files = "context: {files: [a, b]}"
    assert argv(a_step("command: [rm, '${context.files[*]}']", files))[1] == Template(
        (Reference(("context", "files"), spread=True),)
    )
    assert errors(a_step("command: [rm, 'x${context.files[*]}']", files)) == [("E117", 4)]
    assert errors(a_step("command: rm ${context.files[*]}", files)) == [("E117", 4)]


@pytest.mark.rule("R003", "D24")
@pytest.mark.parametrize("word", ["|", "&&", ";", ">", "*"])
def test_shell_syntax_gets_a_warning_unless_it_is_quoted(word: str) -> None:
    assert warnings(a_step(f"command: a {word} b")) == [("E311", 4)]
    assert warnings(a_step(f"command: a '{word}' b")) == []
    assert warnings(a_step(f"command: [a, '{word}', b]")) == []


@pytest.mark.rule("R027")
@pytest.mark.parametrize("written", ["''", "[]", "' '", "['']", "{a: b}", "3"])
def test_a_command_has_a_program(written: str) -> None:
    assert len(errors(a_step(f"command: {written}"))) == 1


# --- timeouts, retries, limits --------------------------------------------------------------------


@pytest.mark.rule("R031", "D61")
@pytest.mark.parametrize(
    ("action", "seconds"),
    [
        ("command: [a]", 300),
        ("http: {url: 'https://example.com/'}", 300),
        ("python: 'm:f'", 300),
        ("{provider: echo, prompt: hi}", 3600),
        ("set: {a: 1}", None),
        ("approval: May I?", None),
        ("steps: [{name: s, command: [a]}]", None),
        ("parallel: [{name: s, command: [a]}]", None),
        ("for_each: {items: [1], steps: [{name: s, command: [a]}]}", None),
        ("while: {condition: false, steps: [{name: s, command: [a]}]}", None),
    ],
)
def test_each_kind_has_its_default_timeout(action: str, seconds: int | None) -> None:
    written = action.strip("{}").replace(", ", "\n    ") if action.startswith("{") else action
    assert step(a_step(written)).timeout == seconds


@pytest.mark.rule("D09", "D61", "R023")
def test_a_run_has_a_timeout_only_if_it_is_given() -> None:
    assert workflow(a_step("command: [a]")).timeout is None
    assert workflow(a_step("command: [a]", "timeout: 90.5")).timeout == 90.5


@pytest.mark.rule("D04", "D61", "D64")
def test_defaults_are_for_tasks_that_do_not_say_it() -> None:
    text = """
        defaults: {timeout: 5, provider: codex, retry: {attempts: 2}}
        steps:
          - {name: A, command: [a]}
          - {name: B, command: [a], timeout: 7, retry: {attempts: 4}}
          - {name: C, prompt: hi}
          - {name: D, steps: [{name: E, command: [a]}]}
        """
    assert (step(text).timeout, step(text).retry) == (5, Retry(2))
    assert (step(text, "B").timeout, step(text, "B").retry) == (7, Retry(4))
    assert body(Agent, text, "C").provider == "codex"
    assert (step(text, "D").timeout, step(text, "D").retry) == (None, None)


@pytest.mark.rule("R032", "D44")
def test_retries_have_defaults_and_can_be_narrowed() -> None:
    assert Retry() == Retry(1, "linear", 1, 60, (), 0)
    text = a_step("""command: [a]
    retry:
      attempts: 3
      backoff: exponential
      delay: 0.5
      max_delay: 9
      operator: 60
      on: [1, 2.0, timeout, rate_limit]""")
    assert step(text).retry == Retry(3, "exponential", 0.5, 9, (1, 2, "timeout", "rate_limit"), 60)
    assert errors(a_step("command: [a]\n    retry: {attempts: 0}")) == [("E302", 5)]
    assert errors(a_step("command: [a]\n    retry: {backoff: quadratic}")) == [("E303", 5)]


@pytest.mark.rule("R033", "D45")
@pytest.mark.parametrize(
    ("written", "size"),
    [("512M", 512_000_000), ("2Gi", 2 * 2**30), ("1.5 KB", 1500), ("4096", 4096), ("1.0", 1)],
)
def test_memory_is_written_in_bytes_or_with_a_unit(written: str, size: int) -> None:
    text = a_step(f"command: [a]\n    limits: {{max_memory: {written}, max_cpu: 1.5, max_output_size: 10}}")
    assert body(Command, text).work.limits == Limits(size, 1.5, 10)


@pytest.mark.rule("R033", "D45")
@pytest.mark.parametrize("written", ["10000T", "0M", "0.1", "'0.5'", "9007199254740992"])
def test_memory_that_no_machine_has_is_refused(written: str) -> None:
    assert [line for _, line in errors(a_step(f"command: [a]\n    limits: {{max_memory: {written}}}"))] == [5]


@pytest.mark.rule("R033", "D56")
def test_version_1_0_keeps_less_output() -> None:
    steps = "name: W\nsteps: [{name: A, command: [a]}]"
    assert workflow(f'version: "1.0"\n{steps}').max_output_size == 10_000
    assert workflow(f'version: "2.0"\n{steps}').max_output_size == 100_000


# --- what all tasks have --------------------------------------------------------------------------


@pytest.mark.rule("D64", "R030")
def test_tasks_say_where_they_run_and_what_becomes_of_their_output() -> None:
    text = a_step("""command: [a]
    workdir: sub
    output_file: out.txt
    capture: json
    expect: {files: [out.txt, "${run.id}.log"], schema: {type: object}}
    keep_children: true
    cache: true
    idempotent: false
    on_doubt: fail
    description: what for
    labels: {team: x, size: 3}""")
    work = body(Command, text).work
    assert (work.workdir, work.output_file, work.capture) == ("sub", "out.txt", "json")
    assert work.expect == Expect(
        ("out.txt", Template((Reference(("run", "id")), ".log"))), {"type": "object"}
    )
    assert (work.keep_children, work.cache) == (True, True)
    assert (step(text).idempotent, step(text).on_doubt) == (False, "fail")
    assert (step(text).description, step(text).labels) == ("what for", {"team": "x", "size": "3"})


@pytest.mark.rule("D64")
def test_a_schema_may_stand_in_a_file_which_becomes_part_of_the_plan() -> None:
    text = a_step("command: [a]\n    expect: {schema: answer.json}")
    found = body(Command, text, files={"answer.json": '{"type": "array"}'}).work.expect
    assert found == Expect(schema={"type": "array"})
    assert [code for code, _ in errors(text, files={"answer.json": "[]"})] == ["E305"]


@pytest.mark.rule("R029", "R096", "D54")
def test_input_files_are_one_or_several() -> None:
    one = "command: [a]\n    input_file: in.txt"
    assert body(Command, a_step(one)).work.input_files == ("in.txt",)
    several = "provider: echo\n    prompt: hi\n    input_files: [a.md, b.md]\n    inject: content"
    assert body(Agent, a_step(several)).work.input_files == ("a.md", "b.md")
    assert body(Agent, a_step(several)).work.inject == "content"
    both = "provider: echo\n    prompt: hi\n    input_file: a\n    input_files: [b]"
    assert [code for code, _ in errors(a_step(both))] == ["E407"]


# --- agents ---------------------------------------------------------------------------------------


@pytest.mark.rule("R028", "D04")
def test_a_prompt_makes_an_agent_step_and_the_first_without_a_provider_is_warned_about() -> None:
    text = "steps:\n  - {name: A, prompt: hi}\n  - {name: B, prompt: ho}\n"
    assert body(Agent, text).provider == "claude"
    assert warnings(text) == [("E414", 2)]


@pytest.mark.rule("R028", "R094")
def test_a_provider_is_built_in_or_declared() -> None:
    assert errors(a_step("provider: cluade\n    prompt: hi")) == [("E216", 4)]
    head = (
        'providers: {mine: {argv: [my, "--x"], stdin: none, result: json, text_field: a.b, needs_env: [KEY]}}'
    )
    text = a_step("provider: mine\n    prompt: hi", head)
    assert body(Agent, text).provider == "mine"
    template = workflow(text).providers["mine"]
    assert (template.argv, template.stdin, template.result) == (("my", "--x"), "none", "json")
    assert (template.text_field, template.needs_env) == ("a.b", ("KEY",))


@pytest.mark.rule("R038", "D53", "D52")
def test_settings_of_the_provider_stand_on_the_step() -> None:
    text = a_step("""provider: claude
    prompt: hi
    model: large
    fallback_models: [small]
    effort: high
    system_prompt: be kind
    max_turns: 3
    max_cost: 1.5
    max_tokens: 100
    temperature: 0.5
    add_dirs: [docs]
    allowed_tools: [Read]
    disallowed_tools: [Write]
    args: [--verbose]
    access: read
    allow_denials: true
    strict_provider: true
    workspace: worktree
    budget: {usd: 2, soft: 1, tokens: 1000}""")
    agent = body(Agent, text)
    assert (agent.model, agent.fallback_models, agent.effort) == ("large", ("small",), "high")
    assert agent.system_prompt == Prompt("be kind")
    assert (agent.max_turns, agent.max_cost, agent.max_tokens, agent.temperature) == (3, 1.5, 100, 0.5)
    assert (agent.add_dirs, agent.allowed_tools, agent.disallowed_tools) == (("docs",), ("Read",), ("Write",))
    assert (agent.args, agent.access, agent.workspace) == (("--verbose",), "read", "worktree")
    assert (agent.allow_denials, agent.strict_provider) == (True, True)
    assert agent.work.budget == Budget(2, 1000, 1)


@pytest.mark.rule("D53")
def test_agents_may_edit_unless_told_otherwise() -> None:
    assert body(Agent, a_step("provider: claude\n    prompt: hi")).access == "edit"


@pytest.mark.rule("R029", "R011", "R017", "D63")
def test_the_text_of_a_prompt_file_becomes_part_of_the_plan() -> None:
    text = a_step("provider: echo\n    prompt_file: prompts/ask.md", "context: {name: x}")
    files = {"prompts/ask.md": "Hello ${context.name}\n"}
    assert body(Agent, text, files=files).prompt == Prompt(
        Template(("Hello ", Reference(("context", "name")), "\n"))
    )
    changed = {"prompts/ask.md": "Bye ${context.name}\n"}
    one, other = reading(text, files=files).plan, reading(text, files=changed).plan
    assert one is not None
    assert other is not None
    assert one.metadata.plan_version != other.metadata.plan_version


@pytest.mark.rule("D51", "D63")
def test_problems_of_a_prompt_file_are_told_with_its_own_name_and_line() -> None:
    text = a_step("provider: echo\n    prompt_file: ask.md")
    found = reading(text, files={"ask.md": "Hello\n${context.nobody}\n"}).diagnostics
    assert [(one.file, one.line, str(one.code)) for one in found] == [("ask.md", 2, "E208")]


@pytest.mark.rule("D63")
def test_a_missing_prompt_file_gets_a_warning_and_a_path_with_a_reference_is_read_later() -> None:
    missing = a_step("provider: echo\n    prompt_file: ask.md")
    assert warnings(missing) == [("E214", 5)]
    assert body(Agent, missing).prompt == Prompt(file="ask.md")
    later = a_step("provider: echo\n    prompt_file: '${context.name}.md'", "context: {name: x}")
    assert warnings(later) == []
    assert body(Agent, later).prompt == Prompt(file=Template((Reference(("context", "name")), ".md")))


@pytest.mark.rule("R029")
def test_a_prompt_is_written_in_one_place() -> None:
    assert errors(a_step("provider: echo\n    prompt: hi\n    prompt_file: ask.md")) == [("E407", 6)]


@pytest.mark.rule("D64")
def test_a_session_goes_on_with_an_agent_step() -> None:
    text = """
        steps:
          - {name: Ask, id: ask, provider: claude, prompt: hi}
          - {name: Do, command: [a]}
          - {name: A, provider: claude, prompt: go on, session: {resume: Ask}}
        """
    assert body(Agent, text).resume == "ask"
    assert errors(text.replace("{resume: Ask}", "{resume: Do}")) == [("E405", 4)]
    assert errors(text.replace("{resume: Ask}", "{resume: Nobody}")) == [("E204", 4)]


# --- the other kinds ------------------------------------------------------------------------------


@pytest.mark.rule("D64")
def test_a_request_has_a_method_headers_a_body_and_codes() -> None:
    text = a_step(
        """http:
      method: POST
      url: https://example.com/${run.id}
      headers: {X-Token: "${env.T}"}
      body: {a: [1, "${run.id}"]}
      expect_status: [200, 201.0]
    secrets: [T]""",
        "secrets: [T]",
    )
    http = body(Http, text)
    assert (http.method, http.expect_status) == ("POST", (200, 201))
    assert http.url == Template(("https://example.com/", Reference(("run", "id"))))
    assert http.headers == {"X-Token": Template((Reference(("env", "T")),))}
    assert http.body == DataMap({"a": DataList((1, Reference(("run", "id"))))})
    assert body(Http, a_step("http: {url: 'http://x/', expect_status: 204}")).expect_status == (204,)
    assert errors(a_step("http: {method: POST}")) == [("E401", 4)]


@pytest.mark.rule("D68")
def test_hosts_can_be_narrowed() -> None:
    assert workflow(a_step("command: [a]", "http_allow: [example.com]")).http_allow == ("example.com",)


@pytest.mark.rule("D64", "D69")
def test_a_function_is_named_alone_or_with_arguments() -> None:
    assert body(Python, a_step("python: pack.module:function")).function == "pack.module:function"
    told = body(Python, a_step("python: {function: 'm:f', args: {x: '${run.id}', y: [1]}}"))
    assert (told.function, told.args) == ("m:f", {"x": Reference(("run", "id")), "y": DataList((1,))})
    assert errors(a_step("python: not a function")) == [("E305", 4)]


@pytest.mark.rule("D64")
def test_an_approval_asks_a_person() -> None:
    assert body(Approval, a_step("approval: Deploy ${run.id}?")).message == Template(
        ("Deploy ", Reference(("run", "id")), "?")
    )
    text = a_step("""approval:
      message: Deploy?
      assignee: ops
      timeout: 60
      form: {reason: {required: true}, count: {type: int, enum: [1, 2]}}""")
    approval = body(Approval, text)
    assert approval.form == {"reason": FormField(required=True), "count": FormField("int", enum=(1, 2))}
    assert (approval.assignee, step(text).timeout) == ("ops", 60)


@pytest.mark.rule("D64")
def test_set_writes_the_context() -> None:
    assert body(Set, a_step("set: {a: 1.0, b: '${run.id}', c: {d: null}}")).values == {
        "a": 1,
        "b": Reference(("run", "id")),
        "c": DataMap({"d": None}),
    }


@pytest.mark.rule("D64")
def test_a_budget_warns_before_it_ends() -> None:
    text = a_step("command: [a]", "budget: {usd: 2, tokens: 1000, soft: 1.5, reserve: 0}")
    assert workflow(text).budget == Budget(2, 1000, 1.5, 0)
    assert errors(a_step("command: [a]", "budget: {usd: 1, soft: 2}")) == [("E302", 1)]


@pytest.mark.rule("D47")
def test_agents_that_edit_the_same_files_at_once_get_a_warning() -> None:
    text = """
        steps:
          - name: Both
            parallel:
              - {{name: a, provider: claude, prompt: hi{a}}}
              - {{name: b, provider: claude, prompt: hi}}
        """
    assert [code for code, _ in warnings(text.format(a=""))] == ["E412"]
    assert warnings(text.format(a=", access: read")) == []
    assert warnings(text.format(a=", workspace: worktree")) == []


@pytest.mark.rule("D47")
def test_steps_of_a_graph_that_wait_for_the_same_one_run_at_once() -> None:
    """Wherever the one they wait for stands, and although each of them comes after it."""
    text = """
        steps:
          - {{name: a, depends_on: [b], {does}}}
          - {{name: b, {does}}}
          - {{name: c, depends_on: [b], {does}}}
        """
    assert warnings(text.format(does="provider: claude, prompt: hi")) == [("E412", 4)]
    assert errors(text.format(does="command: [a], output_file: same")) == [("E410", 4)]
    chain = text.replace("c, depends_on: [b]", "c, depends_on: [a]")
    assert warnings(chain.format(does="provider: claude, prompt: hi")) == []
    assert errors(chain.format(does="command: [a], output_file: same")) == []
