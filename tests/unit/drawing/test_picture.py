"""Which boxes and arrows a plan has."""

from podium.drawing.picture import Box, Exit, Picture
from tests.unit.drawing.plans import EVERY_KIND, flow, picture


def named(drawn: Picture) -> dict[str, Box]:
    return {box.name: box for box in drawn.every_box()}


def arrows(drawn: Picture) -> set[tuple[str, str, tuple[str, ...], bool]]:
    names = {box.number: box.name for box in drawn.every_box()}
    return {(names[a.source], names[a.target], a.events, a.implied) for a in drawn.arrows}


def test_steps_without_handlers_lead_to_the_next_and_the_last_to_the_end() -> None:
    drawn = picture(flow("{name: a, command: [x]}", "{name: b, command: [x]}"))
    assert arrows(drawn) == {
        ("start", "a", (), True),
        ("a", "b", ("success",), True),
        ("b", "end", ("success",), True),
    }
    assert named(drawn)["a"].exits == (Exit(("failure",), "failed", "the run fails", True),)


def test_what_is_written_is_told_from_what_is_implied() -> None:
    drawn = picture(flow("{name: a, command: [x], on: {success: {end: true}}}"))
    assert ("a", "end", ("success",), False) in arrows(drawn)
    assert named(drawn)["a"].exits == (Exit(("failure",), "stuck", "no transition, the run fails", True),)


def test_in_compatibility_mode_every_outcome_leads_on() -> None:
    drawn = picture(flow("{name: a, command: [x]}", "{name: b, command: [x]}", head="strict_flow: false"))
    assert ("a", "b", ("always",), True) in arrows(drawn)
    assert named(drawn)["a"].exits == ()


def test_in_literal_strict_mode_a_step_without_handlers_leads_nowhere() -> None:
    drawn = picture(flow("{name: a, command: [x]}", head="strict_flow: true"))
    (exit_,) = named(drawn)["a"].exits
    assert (exit_.events, exit_.kind) == (("always",), "stuck")


def test_a_step_that_may_be_skipped_has_that_outcome_too() -> None:
    step = "{name: a, command: [x], when: false, on: {success: {end: true}, skipped: {goto: b}}}"
    drawn = picture(flow(step, "{name: b, command: [x]}"))
    assert ("a", "b", ("skipped",), False) in arrows(drawn)


def test_a_graph_has_its_dependencies() -> None:
    drawn = picture(
        flow(
            "{name: a, command: [x]}",
            "{name: b, command: [x], depends_on: [a]}",
            "{name: c, command: [x], depends_on: [a, b]}",
        )
    )
    assert arrows(drawn) == {
        ("start", "a", (), True),
        ("a", "b", (), False),
        ("a", "c", (), False),
        ("b", "c", (), False),
        ("c", "end", (), True),
    }


def test_branches_lead_nowhere_and_groups_are_flows() -> None:
    drawn = picture(EVERY_KIND)
    box = named(drawn)["Branches"]
    assert [inner.name for inner in box.inside or ()] == ["Left", "Right"]
    left = named(drawn)["Left"].number
    assert not any(arrow.source == left for arrow in drawn.arrows)
    assert ("One", "Two", (), False) in arrows(drawn)


def test_loops_are_left_by_exits_and_by_arrows() -> None:
    drawn = picture(EVERY_KIND)
    leave = named(drawn)["Leave"]
    assert Exit(("success",), "break", "leave the loop", False) in leave.exits
    # To a step around the loop an arrow; to the very loop it stands in, words.
    assert ("Leave", "After", ("failure",), False) in arrows(drawn)
    assert Exit(("timeout",), "goto", "again: Loop", False) in leave.exits


def test_errors_the_error_step_and_finally_are_there() -> None:
    drawn = picture(EVERY_KIND)
    assert named(drawn)["Gate"].exits == (Exit(("failure",), "error", "error: no & never", False),)
    assert ("Ask a person", "_error", ("failure",), False) in arrows(drawn)
    assert ("end", "finally", ("always",), True) in arrows(drawn)
    assert named(drawn)["Clean up"].path == "_finally/Clean up"


def test_kinds_and_conditions_are_told_in_the_words_of_the_language() -> None:
    boxes = named(picture(EVERY_KIND))
    assert (boxes["Loop"].kind, boxes["Loop"].detail) == ("while", "not Ask ok, 3 passes at most")
    assert (boxes["Inner"].kind, boxes["Inner"].detail) == ("for_each", "item in [1, 2]")
    assert boxes["After"].notes == ("when Branches ok", "may fail")
    assert boxes["Gate"].notes == ("when 1 < 2",)


def test_a_script_is_drawn_as_it_was_written() -> None:
    script = 'echo "${context.who}" "${HOME}" "$PODIUM_RUN_ID"'
    boxes = named(
        picture(
            flow(
                f"{{name: A, shell: '{script}'}}",
                "{name: B, command: [sh, -c, ls]}",
                head="context: {who: me}",
            )
        )
    )
    assert (boxes["A"].kind, boxes["A"].detail) == ("shell", script)
    assert (boxes["B"].kind, boxes["B"].detail) == ("command", "sh -c ls")


def test_every_arrow_leads_from_one_box_of_the_picture_to_another() -> None:
    drawn = picture(EVERY_KIND)
    numbers = [box.number for box in drawn.every_box()]
    assert len(numbers) == len(set(numbers))
    assert all({arrow.source, arrow.target} <= set(numbers) for arrow in drawn.arrows)
