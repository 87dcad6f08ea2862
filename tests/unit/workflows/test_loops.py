"""Loops and blocks: items, passes, branches, joins, and what is known inside and outside of them."""

import pytest

from podium.expressions.types import DataList, Reference, Template
from podium.plan.conditions import All, Not, StepIs
from podium.plan.plan import ForEach, Goto, Group, Handlers, Join, Parallel, Retry, While
from tests.unit.workflows.reading import argv, body, errors, step


def each(rest: str = "", beside: str = "") -> str:
    return f"""
        context: {{files: [a, b], word: text}}
        steps:
          - name: A
            for_each: {{steps: [{{name: s, command: [x]}}]{rest}}}
            {beside}
        """


# --- for_each -------------------------------------------------------------------------------------


@pytest.mark.rule("R053")
def test_items_are_written_out_or_one_reference_to_a_list() -> None:
    assert body(ForEach, each(", items: [1, two, '${context.word}']")).items == DataList(
        (1, "two", Reference(("context", "word")))
    )
    assert body(ForEach, each(", items: '${context.files}'")).items == Reference(("context", "files"))


@pytest.mark.rule("R053", "D57")
@pytest.mark.parametrize("items", ["${context.word}", "a ${context.files}", "plain", "${context.files} "])
def test_a_text_is_no_list(items: str) -> None:
    assert errors(each(f", items: '{items}'")) == [("E307", 4)]


@pytest.mark.rule("D57")
def test_output_is_no_list_but_its_lines_are() -> None:
    text = """
        steps:
          - {{name: List, command: [ls], capture: lines}}
          - name: A
            for_each: {{items: "${{steps.List.{field}}}", steps: [{{name: s, command: [x]}}]}}
        """
    assert errors(text.format(field="output")) == [("E307", 4)]
    assert errors(text.format(field="lines")) == []


@pytest.mark.rule("R037", "R042", "R053", "R054", "D14", "D57")
def test_for_each_takes_items_one_by_one_unless_told_otherwise() -> None:
    default = body(ForEach, each(", items: [1]"))
    assert (default.variable, default.parallel, default.max_workers) == ("item", False, None)
    assert (default.max_iterations, default.join) == (None, Join())
    told = body(ForEach, each(", items: [1], as: file, parallel: true, max_workers: 2, max_iterations: 9"))
    assert (told.variable, told.parallel, told.max_workers, told.max_iterations) == ("file", True, 2, 9)


@pytest.mark.rule("R055", "D57")
def test_more_items_than_max_iterations_are_an_error_and_never_cut() -> None:
    assert errors(each(", items: [1, 2, 3], max_iterations: 2")) == [("E310", 4)]


# --- joins ----------------------------------------------------------------------------------------


@pytest.mark.rule("R036", "R059", "D06", "D07")
@pytest.mark.parametrize(
    "text",
    [
        each(", items: [1], join: {wait_for: majority, rest: wait}"),
        each(", items: [1]", "join: {wait_for: majority, rest: wait}"),
    ],
    ids=["inside", "beside"],
)
def test_a_join_may_stand_in_for_each_and_beside_it(text: str) -> None:
    assert body(ForEach, text).join == Join("majority", rest="wait")


@pytest.mark.rule("D06")
def test_a_join_in_both_places_is_an_error() -> None:
    assert [
        code for code, _ in errors(each(", items: [1], join: {wait_for: any}", "join: {wait_for: all}"))
    ] == ["E407"]


@pytest.mark.rule("R059", "D07", "D61")
def test_the_timeout_of_a_join_is_the_steps_and_on_timeout_its_handler() -> None:
    text = """
        steps:
          - name: A
            parallel: [{name: a, command: [a]}]
            join: {timeout: 60, on_timeout: {goto: B}}
          - {name: B, command: [b]}
        """
    assert step(text).timeout == 60
    assert step(text).on == Handlers(timeout=Goto("B"))


@pytest.mark.rule("D07")
def test_on_timeout_is_written_once() -> None:
    assert [
        code
        for code, _ in errors("""
        steps:
          - name: A
            parallel: [{name: a, command: [a]}]
            join: {timeout: 60, on_timeout: {end: true}}
            on: {timeout: {end: true}}
        """)
    ] == ["E407"]


@pytest.mark.rule("D07")
def test_fail_fast_is_for_all() -> None:
    assert body(ForEach, each(", items: [1]", "join: {fail_fast: true}")).join == Join(fail_fast=True)
    assert errors(each(", items: [1]", "join: {wait_for: any, fail_fast: true}")) == [("E407", 5)]


@pytest.mark.rule("D12", "R061")
def test_passes_have_no_join() -> None:
    assert errors("""
        steps:
          - name: A
            while: {condition: true, steps: [{name: a, command: [a]}]}
            join: {wait_for: all}
        """) == [("E405", 4)]


# --- parallel blocks and groups -------------------------------------------------------------------


@pytest.mark.rule("R036", "R063", "D47", "D61")
def test_a_parallel_block_waits_for_all_with_at_most_ten_at_once() -> None:
    text = "steps:\n  - {name: A, parallel: [{name: a, command: [a]}, {name: b, steps: [{name: c, command: [c]}]}]}"
    assert (body(Parallel, text).join, body(Parallel, text).max_workers) == (Join(), 10)
    assert step(text).timeout is None
    assert isinstance(step(text, "b").body, Group)
    joined = text[:-1] + ", join: {wait_for: any, rest: wait}, max_workers: 3}"
    assert (body(Parallel, joined).join, body(Parallel, joined).max_workers) == (Join("any", rest="wait"), 3)


@pytest.mark.rule("D47")
def test_branches_are_known_below_their_block_and_by_their_plain_names() -> None:
    text = """
        steps:
          - name: Both
            parallel: [{name: a, command: [a]}, {name: b, command: [b]}]
          - {name: A, command: [x, "${steps.Both.branches.a.output}", "${steps.b.exit_code}"]}
        """
    assert argv(text)[1:] == (
        Template((Reference(("steps", "Both", "branches", "a", "output")),)),
        Template((Reference(("steps", "b", "exit_code")),)),
    )


@pytest.mark.rule("D47")
@pytest.mark.parametrize(
    "text",
    [
        """
        steps:
          - name: Both
            parallel:
              - {name: a, command: [a], output_file: out.txt}
              - {name: b, command: [b], output_file: out.txt}
        """,
        """
        steps:
          - name: Each
            for_each:
              items: [1, 2]
              parallel: true
              steps: [{name: a, command: [a], output_file: out.txt}]
        """,
        """
        steps:
          - {name: a, command: [a], output_file: out.txt}
          - {name: b, command: [b], output_file: out.txt, depends_on: []}
        """,
    ],
    ids=["branches", "items", "graph"],
)
def test_two_steps_that_run_at_once_cannot_write_the_same_file(text: str) -> None:
    assert [code for code, _ in errors(text)] == ["E410"]


@pytest.mark.rule("D47", "R030")
def test_one_after_the_other_may_write_the_same_file_and_names_may_differ() -> None:
    assert (
        errors("""
        steps:
          - {name: a, command: [a], output_file: out.txt}
          - {name: b, command: [b], output_file: out.txt}
          - name: Each
            for_each:
              items: [1, 2]
              parallel: true
              steps: [{name: c, command: [a], output_file: "out_${loop.index}.txt"}]
        """)
        == []
    )


# --- passes ---------------------------------------------------------------------------------------


@pytest.mark.rule("R037", "R061", "D16")
def test_a_while_loop_has_limits_of_its_own() -> None:
    text = "steps:\n  - {{name: A, while: {{condition: true{rest}, steps: [{{name: a, command: [a]}}]}}}}"
    default = body(While, text.format(rest=""))
    assert (default.until, default.max_iterations, default.max_duration) == (False, 1000, 3600)
    assert default.check_interval == 0
    told = body(While, text.format(rest=", max_iterations: 30, max_duration: 300, check_interval: 10"))
    assert (told.max_iterations, told.max_duration, told.check_interval) == (30, 300, 10)


@pytest.mark.rule("R062", "D16")
def test_the_limits_of_a_loop_lead_where_its_timeout_leads() -> None:
    text = """
        steps:
          - name: A
            while: {condition: true, max_iterations: 3, steps: [{name: a, command: [a]}]}
            on: {success: {end: true}, timeout: {error: "took too long"}}
        """
    assert step(text).on is not None


@pytest.mark.rule("D15", "R097")
def test_the_condition_of_a_loop_can_name_its_body() -> None:
    text = """
        steps:
          - name: A
            while:
              condition: {not: {all: [{step_ok: a}, {step_ok: b}]}}
              steps: [{name: a, command: [a]}, {name: b, command: [b]}]
        """
    assert body(While, text).condition == Not(All((StepIs("ok", "a"), StepIs("ok", "b"))))


@pytest.mark.rule("D15")
def test_the_body_of_a_loop_is_known_outside_only_through_last() -> None:
    text = """
        steps:
          - name: Poll
            while: {{condition: false, steps: [{{name: a, command: [a]}}]}}
          - {{name: A, command: [x, "{reference}"]}}
        """
    assert argv(text.format(reference="${steps.Poll.last.a.output}"))[1] == Template(
        (Reference(("steps", "Poll", "last", "a", "output")),)
    )
    assert errors(text.format(reference="${steps.a.output}")) == [("E209", 4)]


@pytest.mark.rule("D64")
def test_repeat_until_asks_after_each_pass() -> None:
    text = """
        steps:
          - name: A
            repeat_until:
              condition: {step_ok: review}
              max_iterations: 5
              steps: [{name: review, command: [r]}]
        """
    assert body(While, text).until
    assert body(While, text).max_iterations == 5


# --- what is known inside -------------------------------------------------------------------------


@pytest.mark.rule("R042", "R043", "R058", "D10")
def test_inner_loops_shadow_outer_ones_and_parent_leads_out() -> None:
    text = """
        steps:
          - name: Outer
            for_each:
              items: [1]
              steps:
                - name: Inner
                  for_each:
                    items: [2]
                    steps:
                      - {name: A, command: [x, "${item}", "${loop.index}", "${loop.parent.index}"]}
                - {name: After, command: [x, "${item}", "${loop.last}"]}
        """
    assert errors(text) == []
    assert argv(text)[3] == Template((Reference(("loop", "parent", "index")),))


@pytest.mark.rule("D10")
def test_a_loop_that_is_in_no_other_has_no_parent() -> None:
    text = "steps:\n  - {name: E, for_each: {items: [1], steps: [{name: a, command: [x, '${loop.parent.index}']}]}}"
    assert errors(text) == [("E207", 2)]


@pytest.mark.rule("D10")
def test_a_variable_cannot_hide_a_namespace() -> None:
    assert errors("""
        steps:
          - name: Each
            for_each: {items: [1], as: context, steps: [{name: a, command: [x]}]}
        """) == [("E312", 3)]


@pytest.mark.rule("R044")
def test_passes_know_their_number_and_time() -> None:
    text = """
        steps:
          - name: Poll
            while:
              condition: false
              steps: [{{name: a, command: [x, "${{loop.{field}}}"]}}]
        """
    for known in ("iteration", "elapsed", "remaining_time"):
        assert errors(text.format(field=known)) == []
    assert errors(text.format(field="index")) == [("E208", 5)]


@pytest.mark.rule("R043")
def test_items_know_their_place() -> None:
    text = "steps:\n  - {{name: E, for_each: {{items: [1], steps: [{{name: a, command: [x, '${{loop.{field}}}']}}]}}}}"
    for known in ("index", "total", "first", "last"):
        assert errors(text.format(field=known)) == []
    assert errors(text.format(field="elapsed")) == [("E208", 2)]


@pytest.mark.rule("R048", "D10")
@pytest.mark.parametrize("reference", ["${file}", "${loop.index}", "${loop.parent.index}"])
def test_what_belongs_to_a_loop_is_unknown_outside(reference: str) -> None:
    assert errors(f"""
        steps:
          - name: Each
            for_each: {{items: [1], as: file, steps: [{{name: a, command: [x]}}]}}
          - {{name: A, command: [x, "{reference}"]}}
        """) == [("E207", 4)]


@pytest.mark.rule("R046", "R056", "D13")
def test_iterations_have_a_short_form_that_means_the_long_one() -> None:
    text = """
        steps:
          - name: Each
            for_each: {items: [1], steps: [{name: Build it, id: build, command: [x]}]}
          - name: A
            command:
              - x
              - ${steps.Each.iterations[0].steps.Build it.output}
              - ${steps.Each.iterations[0].Build it.output}
              - ${steps.Each.iterations[0].build.output}
              - ${steps.Each.iterations[0].status}
        """
    long_form = Template((Reference(("steps", "Each", "iterations", 0, "steps", "build", "output")),))
    assert argv(text)[1:4] == (long_form, long_form, long_form)
    assert errors(text.replace("iterations[0].status", "iterations[0].Biuld.output")) == [("E208", 10)]


@pytest.mark.rule("R046", "D12", "R099")
@pytest.mark.parametrize(
    "field",
    ["count", "total", "success_count", "failure_count", "skipped_count", "cancelled_count", "success_rate"],
)
def test_summaries_have_counts(field: str) -> None:
    text = each(", items: [1]") + f"\n          - {{name: B, command: [x, '${{steps.A.summary.{field}}}']}}"
    assert errors(text) == []
    assert errors(text.replace(field, "average")) == [("E208", 7)]


@pytest.mark.rule("D71")
def test_loops_blocks_and_calls_may_be_tried_again() -> None:
    assert step(each(", items: [1]", "retry: {attempts: 3}")).retry == Retry(3)


@pytest.mark.rule("D05")
def test_allow_failure_is_kept() -> None:
    assert step("steps: [{name: A, command: [a], allow_failure: true}]").allow_failure
