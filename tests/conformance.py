"""Keeps docs/conformance/ and the tests telling the same story.

A row of a conformance table is shown by the tests that carry its id: `@pytest.mark.rule("NR06")`. Run as a
program (`make conformance`) this writes the tests and the planted violations of each row into the tables;
`tests/unit/test_conformance.py` fails when they differ.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.planted.cannot import CANNOT
from tests.planted.registry import by_rule

TESTS = Path(__file__).parent
TABLES = TESTS.parent / "docs" / "conformance"
# The promises of stores are published, so their rules are listed here and not marked there.
RULES_OF_PROMISES = {
    "a_decision_is_recorded_with_its_events": ("G36",),
    "a_refused_append_records_no_decision": ("G36",),
    "repeated_events_are_not_decided_again": ("G36",),
    "each_tenant_has_a_chain_of_its_own": ("G36",),
    "each_record_is_sealed_with_the_key_of_its_time": ("G36",),
    "decisions_at_the_same_time_make_one_chain": ("G36",),
    "audit_records_outlive_their_run": ("G36",),
    "the_worker_whose_attempt_was_taken_over_is_fenced_off": ("G45",),
    "a_worker_that_starts_an_attempt_again_gets_the_next_generation": ("G06", "G45"),
    "an_attempt_that_has_ended_is_answered_with_its_end": ("G13",),
    "no_attempt_starts_without_the_lease_of_its_run": ("G45",),
    "a_new_run_is_stored_with_its_first_events": ("ES02", "G12", "G49"),
    "the_same_request_gives_the_same_run_and_stores_nothing": ("ES17", "G31"),
    "the_same_request_for_something_else_is_refused": ("G44",),
    "a_run_id_belongs_to_one_run": ("ES17",),
    "a_run_keeps_the_reference_to_its_plan": ("G19",),
    "a_reference_that_is_not_that_of_the_runs_plan_is_refused": ("G19",),
    "events_get_rising_numbers_in_the_order_of_the_append": ("ES01", "ES02", "ES03"),
    "a_record_says_everything_its_write_said": ("G05",),
    "a_repeated_event_is_answered_and_not_stored": ("ES04", "G08"),
    "a_repeated_event_that_says_something_else_changes_nothing_and_is_told": ("G45",),
    "of_a_batch_only_what_is_new_is_stored": ("ES04", "G08"),
    "a_thousand_repetitions_change_nothing": ("ES04",),
    "an_event_that_cannot_be_kept_is_refused_with_its_whole_batch": ("G44", "G48"),
    "an_id_that_is_none_is_refused": ("G44",),
    "no_name_has_100_kb_of_hostile_text": ("G44",),
    "types_nobody_knows_are_kept": ("ES13", "ES21"),
    "a_driver_that_missed_something_is_told_what": ("G40",),
    "a_watcher_sees_everything_once_and_in_order": ("ES08", "G09"),
    "a_run_is_found_by_the_ids_of_its_engine": ("G18",),
    "another_tenants_run_looks_like_one_that_does_not_exist": ("G35", "G49"),
    "a_lapsed_lease_can_be_taken_and_its_old_holder_is_fenced_off": ("G45", "G46"),
    "runs_of_one_key_take_slots_in_line_and_each_applies_its_own_limit": (
        "D64",
        "G47",
        "OP03",
        "OP04",
        "OP07",
    ),
    "no_more_runs_of_one_key_are_live_than_their_limit_however_many_ask": ("D64", "G47", "OP03"),
    "others_see_who_holds_a_lease_and_whether_it_has_lapsed": ("D32", "G46"),
    "without_a_lease_only_what_others_decided_can_be_recorded": ("G45",),
    "the_lease_of_an_attempt_is_for_the_events_of_that_attempt": ("G45",),
    "many_hosts_never_get_the_same_run": ("ES18",),
    "a_delayed_run_waits_for_its_time": ("ES16",),
    "a_run_that_needs_approval_waits_for_it": ("G11",),
    "a_run_that_needs_approval_starts_only_with_the_plan_that_was_approved": ("G11",),
    "an_approval_that_names_no_plan_lets_no_run_start": ("G11",),
    "a_run_that_ended_without_its_approval_is_not_reopened": ("G11",),
    "a_run_is_not_created_as_started_without_the_approval_it_needs": ("G11",),
    "a_tenant_with_many_runs_in_a_pool_does_not_keep_another_waiting": ("ES16",),
    "no_more_runs_are_live_than_a_limit_allows": ("ES16", "G47"),
    "the_slot_of_a_dead_holder_is_free_and_recovery_needs_one": ("G47",),
    "a_lease_without_a_ttl_takes_a_slot": ("G47",),
    "the_owner_of_a_lease_gets_it_again_with_its_generation": ("G45",),
    "an_attempt_that_a_worker_holds_is_ended_under_its_lease_only": ("G45",),
    "a_live_lease_is_taken_over_from_the_owner_that_is_named": ("G45",),
    "a_lease_is_not_taken_over_from_anybody_else": ("G45",),
    "of_many_that_take_over_at_the_same_time_one_succeeds": ("G45",),
    "a_run_that_is_taken_over_keeps_its_slot_and_a_lapsed_one_needs_one": ("G47",),
    "a_parked_run_is_held_for_every_one_that_looks_for_work": ("G47",),
    "runs_that_are_parked_and_taken_over_at_random_never_share_a_slot": ("G47",),
    "a_snapshot_comes_back_and_an_older_one_never_replaces_it": ("ES11", "G50"),
    "duplicates_are_not_delivered_again": ("G08",),
    "a_line_is_held_by_one_relay_and_what_was_delivered_is_gone": ("G12",),
    "a_dead_letter_is_kept_apart_and_its_line_goes_on": ("ES19",),
}
_ROW = re.compile(
    r"^\| (?P<id>[A-Z]+[0-9.]+) \| (?P<rule>[^|]*) \| (?P<tests>[^|]*) \| (?P<planted>[^|]*) \|$"
)

_NOT_SHOWN = re.compile(r"later:|only advice:", re.IGNORECASE)


def marked_tests() -> dict[str, list[str]]:
    """For each rule the tests that are marked with it, as `file::test`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, node, rule in _markers():
        found[rule].append(f"{path.stem.removeprefix('test_')}::{node.removeprefix('test_')}")
    for name, rules in RULES_OF_PROMISES.items():
        for rule in rules:
            found[rule].append(f"store_promises::{name}")
    return found


@cache
def files_by_rule() -> dict[str, set[Path]]:
    """For each rule the files with tests that are marked with it, without the promises of stores."""
    found: dict[str, set[Path]] = defaultdict(set)
    for path, _, rule in _markers():
        found[rule].add(path)
    return found


def has_promises(rule: str) -> bool:
    """Whether promises of stores show the rule."""
    return any(rule in rules for rules in RULES_OF_PROMISES.values())


def _markers() -> Iterator[tuple[Path, str, str]]:
    """File, test or class, rule."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "mark.rule(" in text else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for rule in _marked(node):
                    yield path, node.name, rule


def promised() -> set[str]:
    """The names of all promises of stores."""
    modules = (TESTS.parent / "src" / "podium" / "testing" / "store_promises").glob("*.py")
    trees = [ast.parse(module.read_text()) for module in modules]
    functions = [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {name.removeprefix("test_") for name in functions if name.startswith("test_")}


def later() -> set[str]:
    """Rows that belong to a part which does not exist yet, or that only advise."""
    lines = (line for path in TABLES.glob("*.md") for line in path.read_text().splitlines())
    return {row["id"] for line in lines if (row := _ROW.match(line)) and _NOT_SHOWN.search(row["rule"])}


def rows() -> dict[str, Path]:
    """Every row id with the table it stands in."""
    return {
        row["id"]: path
        for path in sorted(TABLES.glob("*.md"))
        for line in path.read_text().splitlines()
        if (row := _ROW.match(line))
    }


def written(text: str) -> str:
    """A conformance page with its last two columns filled in."""
    tests, planted = marked_tests(), planted_by_rule()

    def fill(line: str) -> str:
        row = _ROW.match(line)
        if row is None:
            return line
        shown = ", ".join(f"`{name}`" for name in sorted(set(tests.get(row["id"], []))))
        return f"| {row['id']} | {row['rule']} | {shown} | {'; '.join(planted.get(row['id'], []))} |"

    return "\n".join(fill(line) for line in text.split("\n"))


def planted_by_rule() -> dict[str, list[str]]:
    """What is planted for each rule, or why nothing can be."""
    found = {rule: [fault.what for fault in faults] for rule, faults in by_rule().items()}
    return found | {rule: [f"none: {reason}"] for rule, reason in CANNOT.items()}


def _marked(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rule":
            yield from (str(ast.literal_eval(argument)) for argument in decorator.args)


if __name__ == "__main__":
    for page in TABLES.glob("*.md"):
        page.write_text(written(page.read_text()))
