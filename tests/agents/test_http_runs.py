"""Whole runs that ask model servers over HTTP, and programs of one's own: retries, limits, long and secret prompts."""

import time
from pathlib import Path

import pytest

from tests.agents.box import Box
from tests.agents.running import KEY, Runs
from tests.agents.servers import Calls, Refuses, Says, Turn

# The name of the server, and the provider that asks it.
KINDS = {"anthropic": "anthropic", "openai": "openai", "chat": "openai"}


@pytest.fixture
def runs(tmp_path: Path, box: Box) -> Runs:
    return Runs(tmp_path, box, None)


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_and_cut_answers_are_tried_again_and_the_delay_of_the_server_is_kept(
    runs: Runs, kind: str
) -> None:
    retry = "{attempts: 4, delay: 0.05}"
    turns: list[Turn] = [
        Refuses(429, "rate_limit_error", "slow", {"retry-after-ms": "1500"}),
        Refuses(529, "overloaded_error", "busy"),
        Says("half of", cut=True),
        Says("the whole answer"),
    ]
    began = time.monotonic()
    runs.run(
        f"steps: [{{name: Ask, provider: {KINDS[kind]}, model: big, prompt: hello, retry: {retry}}}]",
        {kind: turns},
    )
    assert runs.codes("Ask") == ["RATE_LIMIT", "OVERLOADED", "AGENT_TRUNCATED", None]
    assert runs.step("Ask")["output"] == "the whole answer"
    assert time.monotonic() - began > 1.5


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_does_not_fit_is_asked_for_once_more(runs: Runs, kind: str) -> None:
    workflow = f"""
steps:
  - name: Judge
    provider: {KINDS[kind]}
    model: big
    prompt: Is it good?
    expect: {{schema: {{type: object, required: [approved], properties: {{approved: {{type: boolean}}}}}}}}
"""
    right: Turn = (
        Calls("give_result", {"approved": True}) if kind == "anthropic" else Says('{"approved": true}')
    )
    asked = runs.run(workflow, {kind: [Says("all fine"), right]}).asked(kind)
    assert runs.ends("Judge")[0]["json"] == {"approved": True}
    assert runs.step("Judge")["usage"]["tokens"] == 2 * (20 if kind == "anthropic" else 17)
    assert "does not fit" in str(asked[1].body)
    if kind == "openai":
        assert asked[1].body["previous_response_id"] == "resp_0000"
    else:
        assert "Is it good?" in str(asked[1].body), "there is no session: the prompt is said again"


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_stops_in_the_middle_is_left_when_its_time_is_up(runs: Runs, kind: str) -> None:
    workflow = f"steps: [{{name: Ask, provider: {KINDS[kind]}, model: big, prompt: hello, timeout: 2}}]"
    began = time.monotonic()
    runs.run(workflow, {kind: [Says("half of", stalls=True)]}, code=1)
    assert runs.codes("Ask") == ["TIMEOUT"]
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_cancelled_in_the_middle_of_an_answer(runs: Runs, kind: str) -> None:
    workflow = f"steps: [{{name: Ask, provider: {KINDS[kind]}, model: big, prompt: hello}}]"
    with runs.begun(workflow, {kind: [Says("half of", stalls=True)]}) as (process, served):
        assert served.servers[kind].stalled.wait(30)
        runs.podium("cancel", runs.run_id)
        out, err = process.communicate(timeout=60)
    assert process.returncode != 0, (out, err)
    assert runs.codes("Ask") == ["CANCELLED"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_of_five_megabytes_arrives_whole_and_its_secrets_are_kept_by_nobody(
    runs: Runs, kind: str
) -> None:
    (runs.folder / "long.md").write_text("the key is ${env.GEMINI_API_KEY}\n" + "word " * 1_000_000 + "end\n")
    workflow = f"""
secrets: [GEMINI_API_KEY]
steps:
  - name: Ask
    provider: {KINDS[kind]}
    model: big
    secrets: [GEMINI_API_KEY]
    system_prompt: "never tell ${{env.GEMINI_API_KEY}}"
    prompt_file: long.md
"""
    asked = runs.run(workflow, {kind: [Says(f"it is {KEY}")]}).asked(kind)
    assert f"the key is {KEY}\n{'word ' * 1_000_000}end\n" in str(asked[0].body).replace("\\n", "\n")
    assert runs.step("Ask")["output"] == "it is ***"
    assert [path for path in runs.files() if KEY.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("provider", ["echo", "mine", "file"])
def test_a_program_of_ones_own_gets_five_megabytes_and_leaves_no_secret(runs: Runs, provider: str) -> None:
    (runs.folder / "long.md").write_text("the key is ${env.GEMINI_API_KEY}\n" + "word " * 1_000_000 + "end\n")
    workflow = f"""
secrets: [GEMINI_API_KEY]
providers:
  mine: {{argv: [cat]}}
  file: {{argv: [sh, -c, 'cat "$PODIUM_PROMPT_FILE"; cat "$PODIUM_SYSTEM_PROMPT_FILE" >&2'], stdin: none}}
steps:
  - name: Ask
    provider: {provider}
    secrets: [GEMINI_API_KEY]
    system_prompt: "never tell ${{env.GEMINI_API_KEY}}"
    prompt_file: long.md
    limits: {{max_output_size: 1000}}
"""
    runs.run(workflow, {})
    answer = runs.path / "logs/steps/Ask.1.txt"
    assert answer.read_text().strip() == f"the key is ***\n{'word ' * 1_000_000}end"
    step = runs.step("Ask")
    assert step["output"] == "the key is ***\n"
    assert (step["truncated"], step["output_bytes"]) == (True, len(answer.read_bytes()))
    assert [path for path in runs.files() if KEY.encode() in path.read_bytes()] == []


def test_the_time_limit_is_for_both_turns_of_a_step(runs: Runs) -> None:
    """The first answer takes most of it, and does not fit; the second would never come."""
    workflow = """
providers:
  slow: {argv: [sh, -c, 'cat > /dev/null; [ -e once ] && touch again && sleep 300; touch once; sleep 3; echo no']}
steps:
  - {name: Ask, provider: slow, prompt: hello, timeout: 6, expect: {schema: {type: object}}}
"""
    runs.run(workflow, {}, code=1)
    ended = time.time()
    assert runs.codes("Ask") == ["TIMEOUT"]
    assert "longer than 6 seconds" in str(runs.ends("Ask")[0]["error"])
    second_turn = ended - (runs.folder / "again").stat().st_mtime
    assert second_turn < 6, "what the first turn left, not six seconds more"


@pytest.mark.rule("D36")
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_larger_than_the_limit_of_the_step_fails_it_with_a_code_of_its_own(
    runs: Runs, kind: str
) -> None:
    workflow = f"""
steps:
  - {{name: Small, provider: {KINDS[kind]}, model: big, prompt: hello, limits: {{max_body_size: 100M}}}}
  - {{name: Large, provider: {KINDS[kind]}, model: big, prompt: hello, limits: {{max_body_size: 20K}}}}
"""
    runs.run(workflow, {kind: [Says("x" * 30_000), Says("x" * 30_000)]}, code=1)
    assert runs.codes("Small") == [None]
    assert runs.codes("Large") == ["HTTP_BODY_TOO_LARGE"]
    assert "20,000 bytes (limits.max_body_size)" in runs.ends("Large")[0]["error"]["message"]
