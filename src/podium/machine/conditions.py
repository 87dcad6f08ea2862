"""Conditions with three answers: true, false, or "that depends on these questions".

Files and variables are only asked for if the answer matters: `all` with something false needs no file. All
needed questions are asked together, and the answers are recorded, so that a replay asks nothing.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from podium.expressions.evaluate import compile_expression, truth
from podium.expressions.templates import render
from podium.machine.commands import Answers, Question
from podium.plan.conditions import All, AnyOf, Condition, EnvSet, FileExists, Holds, Not, StepIs


class View(Protocol):
    """The run as a condition sees it."""

    answers: Answers
    # The questions that are needed and not answered yet.
    questions: list[Question]

    def lookup(self, path: tuple[str | int, ...]) -> object: ...

    def step_is(self, state: str, step: str) -> bool: ...


Ask: TypeAlias = Callable[[View], bool | None]


def compile_condition(condition: Condition) -> Ask:
    match condition:
        case bool():
            return lambda _view: condition
        case Holds():
            evaluate = compile_expression(condition.expression)
            return lambda view: truth(evaluate(view.lookup))  # type: ignore[arg-type]
        case StepIs():
            return lambda view: view.step_is(condition.state, condition.step)
        case Not():
            return _negated(compile_condition(condition.of))
        case All():
            return _all([compile_condition(one) for one in condition.of])
        case AnyOf():
            return _any([compile_condition(one) for one in condition.of])
        case FileExists():
            path = condition.path
            return lambda view: _asked(Question("file", render(path, view.lookup)), view)  # type: ignore[arg-type]
        case EnvSet():
            name = condition.name
            return lambda view: _asked(Question("env", render(name, view.lookup)), view)  # type: ignore[arg-type]


def _asked(question: Question, view: View) -> bool | None:
    answer = view.answers.get(question.key)
    if answer is None:
        view.questions.append(question)
    return answer


def _negated(ask: Ask) -> Ask:
    def negated(view: View) -> bool | None:
        answer = ask(view)
        return None if answer is None else not answer

    return negated


def _all(parts: list[Ask]) -> Ask:
    def all_of(view: View) -> bool | None:
        unknown = False
        for ask in parts:
            answer = ask(view)
            if answer is False:
                return False
            unknown |= answer is None
        return None if unknown else True

    return all_of


def _any(parts: list[Ask]) -> Ask:
    def any_of(view: View) -> bool | None:
        unknown = False
        for ask in parts:
            answer = ask(view)
            if answer:
                return True
            unknown |= answer is None
        return None if unknown else False

    return any_of
