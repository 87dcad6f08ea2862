"""Expressions and templates: what a condition costs beside the same comparison written in Python."""

from bench.measure import Contestant, compete
from bench.report import Report, microseconds
from podium.expressions.evaluate import Lookup, compile_expression
from podium.expressions.patterns import compile_pattern
from podium.expressions.templates import render
from podium.expressions.types import Reference, Value
from podium.language.expressions import parse_expression
from podium.language.kinds import Kinds
from podium.language.templates import command_words, parse_template

_ROUNDS = 15
_CONDITION = "${steps.Test.exit_code} == 0 and ${context.branch} == 'main' and ${steps.Test.attempts} < 3"
_PROMPT = (
    "Look at ${context.branch}: the tests ended with ${steps.Test.exit_code}. " + "Please mend them. " * 20
)
_PLAIN_PROMPT = "Please mend the tests, it costs $5. " * 20
_COMMAND = "deploy --to 'the ${context.branch} servers' --tries ${steps.Test.attempts} --verbose"
_LOG = "building target ok, linking target ok, done with warnings\n" * 1_000
_VALUES: dict[tuple[str | int, ...], Value] = {
    ("steps", "Test", "exit_code"): 0,
    ("steps", "Test", "attempts"): 1,
    ("context", "branch"): "main",
}


def run(report: Report) -> None:
    lookup: Lookup = _VALUES.__getitem__
    evaluate = compile_expression(parse_expression(_CONDITION, _known))
    prompt = parse_template(_PROMPT, _known)
    pattern = compile_pattern(r"error(s)?: \d+")

    jobs: dict[str, Contestant] = {
        "evaluate, three comparisons": Contestant(lambda: evaluate(lookup), 20_000),
        "the same as a lambda": Contestant(lambda: _floor(_VALUES), 20_000),
        "render, two references": Contestant(lambda: render(prompt, lookup), 20_000),
        "parse_expression, three comparisons": Contestant(
            lambda: parse_expression(_CONDITION, _known), 1_000
        ),
        "parse_template, two references": Contestant(lambda: parse_template(_PROMPT, _known), 5_000),
        "parse_template, no reference": Contestant(lambda: parse_template(_PLAIN_PROMPT, _known), 50_000),
        "command_words, five words": Contestant(lambda: command_words(_COMMAND, _known), 2_000),
        "matches, 1,000 lines without a match": Contestant(lambda: pattern.found_in(_LOG), 5),
    }
    report.section("Expressions and templates, compiled and evaluated")
    times = compete(jobs, _ROUNDS)
    for name in jobs:
        report.figure(name, microseconds(times.best(name)))
    report.goal(
        "evaluate, three comparisons",
        times.best("evaluate, three comparisons") * 1e6,
        at_most=3,
        unit="us",
        decides=False,
    )
    report.goal(
        "evaluate / the same as a lambda",
        times.ratio("evaluate, three comparisons", "the same as a lambda"),
        at_most=8,
    )


def _known(_reference: Reference, _start: int, _end: int) -> Kinds:
    return Kinds.ANY


def _floor(values: dict[tuple[str | int, ...], Value]) -> bool:
    return (
        values["steps", "Test", "exit_code"] == 0
        and values["context", "branch"] == "main"
        and values["steps", "Test", "attempts"] < 3  # type: ignore[operator]
    )
