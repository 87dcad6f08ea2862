"""What has to come of every signal. Nothing here is computed from the code that decides."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

ACCEPTED: Final = "ACCEPTED"
# Filled in with the SHA-256 of the run's plan.
PLAN: Final = "the plan of the run"
OWN, OTHER, OTHER_BY_ID = "own", "other", "other by id"
TENANTS: Final = (OWN, OTHER, OTHER_BY_ID)
ENDED: Final = ("completed", "failed", "cancelled")


def _grid(text: str) -> dict[str, dict[str, str]]:
    """A table in words: its first line names the columns, cells are two or more spaces apart."""
    split = [
        [cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.strip().splitlines()
    ]
    columns, *rows = split
    return {name: dict(zip(columns[1:], cells, strict=True)) for name, *cells in rows}


# Who may send what. `none` has no role in the tenant; `owner` is the user of a machine without rules.
WHO: Final = _grid("""
signal           none  viewer  auditor  operator  engineer  admin  approver  system  owner
PAUSE            -     -       -        yes       yes       yes    -         -       yes
RESUME           -     -       -        yes       yes       yes    -         -       yes
CANCEL           -     -       -        yes       yes       yes    -         -       yes
RETRY_STEP       -     -       -        -         yes       yes    -         -       yes
RETRY_RUN        -     -       -        -         yes       yes    -         -       yes
SKIP_STEP        -     -       -        -         yes       yes    -         -       yes
APPROVE          -     -       -        -         -         -      yes       -       yes
REJECT           -     -       -        -         -         -      yes       -       yes
UPDATE_PARAMS    -     -       -        -         -         yes    -         -       yes
INJECT_OVERRIDE  -     -       -        -         -         yes    -         -       yes
UPDATE_TARGET    -     -       -        -         -         yes    -         -       yes
EMERGENCY_STOP   -     -       -        -         -         yes    -         -       yes
ESCALATE_ALERT   -     -       -        -         -         -      -         yes     yes
""")
ROLES: Final = tuple(WHO["PAUSE"])

# What a run in each state says to those who may send the signal: `yes`, or the code of the refusal. `First` is a step
# that has ended, `Now` the one that runs, asks, is held or ended during the pause, `Later` has not been reached.
# A run that has ended answers RUN_TERMINAL to everything but RETRY_RUN.
WHEN: Final = _grid("""
signal                    waiting            approved           running            asking             held               paused
PAUSE                     SIGNAL_IGNORED     SIGNAL_IGNORED     yes                yes                yes                yes
RESUME                    SIGNAL_IGNORED     SIGNAL_IGNORED     yes                yes                yes                yes
CANCEL                    yes                yes                yes                yes                yes                yes
RETRY_STEP First          STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  STEP_TERMINAL      STEP_TERMINAL      STEP_TERMINAL      STEP_TERMINAL
RETRY_STEP Now            STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  yes                STEP_TERMINAL
RETRY_STEP Now, forced    STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  yes                yes
RETRY_STEP Later          STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  STEP_NOT_TERMINAL  STEP_NOT_TERMINAL
RETRY_RUN                 RUN_NOT_TERMINAL   RUN_NOT_TERMINAL   RUN_NOT_TERMINAL   RUN_NOT_TERMINAL   RUN_NOT_TERMINAL   RUN_NOT_TERMINAL
RETRY_RUN, forced         RUN_NOT_TERMINAL   RUN_NOT_TERMINAL   RUN_NOT_TERMINAL   RUN_NOT_TERMINAL   RUN_NOT_TERMINAL   RUN_NOT_TERMINAL
SKIP_STEP First           SIGNAL_IGNORED     SIGNAL_IGNORED     STEP_TERMINAL      yes                STEP_TERMINAL      STEP_TERMINAL
SKIP_STEP Now             SIGNAL_IGNORED     SIGNAL_IGNORED     STEP_RUNNING       STEP_RUNNING       yes                STEP_TERMINAL
SKIP_STEP Later           SIGNAL_IGNORED     SIGNAL_IGNORED     yes                yes                yes                yes
APPROVE the plan          yes                APPROVAL_DECIDED   APPROVAL_DECIDED   APPROVAL_DECIDED   APPROVAL_DECIDED   APPROVAL_DECIDED
APPROVE Now               SIGNAL_IGNORED     SIGNAL_IGNORED     SIGNAL_IGNORED     yes                SIGNAL_IGNORED     SIGNAL_IGNORED
REJECT the plan           yes                APPROVAL_DECIDED   APPROVAL_DECIDED   APPROVAL_DECIDED   APPROVAL_DECIDED   APPROVAL_DECIDED
REJECT Now                SIGNAL_IGNORED     SIGNAL_IGNORED     SIGNAL_IGNORED     yes                SIGNAL_IGNORED     SIGNAL_IGNORED
UPDATE_PARAMS             SIGNAL_IGNORED     SIGNAL_IGNORED     yes                yes                yes                yes
INJECT_OVERRIDE First     yes                yes                STEP_TERMINAL      yes                STEP_TERMINAL      STEP_TERMINAL
INJECT_OVERRIDE Later     yes                yes                yes                yes                yes                yes
UPDATE_TARGET First       yes                yes                STEP_TERMINAL      yes                STEP_TERMINAL      STEP_TERMINAL
UPDATE_TARGET Later       yes                yes                yes                yes                yes                yes
EMERGENCY_STOP            yes                yes                yes                yes                yes                yes
ESCALATE_ALERT            yes                yes                yes                yes                yes                yes
""")  # noqa: E501
WHEN_ENDED: Final = _grid("""
signal             completed       failed  cancelled
RETRY_RUN          SIGNAL_IGNORED  yes     yes
RETRY_RUN, forced  yes             yes     yes
""")
_RUN_TERMINAL: Final = dict.fromkeys(ENDED, "RUN_TERMINAL")
# Without a reason, whatever the state of the run: for those who may send it.
NEEDS_REASON: Final = ("UPDATE_PARAMS", "INJECT_OVERRIDE Later", "UPDATE_TARGET Later")
STATES: Final = (*WHEN["PAUSE"], *ENDED)

_COLOR: Final = {"params": {"context": {"color": "red"}}, "reason": "a test"}
_EXTRA: Final = {"override": {"env": {"EXTRA": "changed"}}, "reason": "a test"}
_ELSEWHERE: Final = {"newTarget": "elsewhere", "reason": "a test"}
PAYLOADS: Final[Mapping[str, Mapping[str, Any]]] = {
    "PAUSE": {"reason": "a test"},
    "RESUME": {},
    "CANCEL": {"reason": "a test"},
    "RETRY_STEP First": {"stepId": "First"},
    "RETRY_STEP Now": {"stepId": "Now"},
    "RETRY_STEP Now, forced": {"stepId": "Now", "force": True},
    "RETRY_STEP Later": {"stepId": "Later"},
    "RETRY_RUN": {},
    "RETRY_RUN, forced": {"force": True},
    "SKIP_STEP First": {"stepId": "First"},
    "SKIP_STEP Now": {"stepId": "Now"},
    "SKIP_STEP Later": {"stepId": "Later"},
    "APPROVE the plan": {"planSha256": PLAN},
    "APPROVE Now": {"stepId": "Now"},
    "REJECT the plan": {"planSha256": PLAN},
    "REJECT Now": {"stepId": "Now"},
    "UPDATE_PARAMS": _COLOR,
    "INJECT_OVERRIDE First": {"stepId": "First", **_EXTRA},
    "INJECT_OVERRIDE Later": {"stepId": "Later", **_EXTRA},
    "UPDATE_TARGET First": {"stepId": "First", **_ELSEWHERE},
    "UPDATE_TARGET Later": {"stepId": "Later", **_ELSEWHERE},
    "EMERGENCY_STOP": {"reason": "a test"},
    "ESCALATE_ALERT": {"level": "P1"},
}


class Effect(NamedTuple):
    """What an accepted signal leads to: an event, the attempt it is about, and a text in its payload."""

    event: str
    attempt: int = 1
    text: str = ""
    # It shows when the run continues as if nothing had been sent.
    later: bool = False


_NO_EFFECT: Final = Effect("SignalIgnored")
_CANCELLED: Final = Effect("RunCancelled")
NEW_RUN: Final = Effect("RunQueued")
_EFFECTS: Final[Mapping[str, Effect]] = {
    "PAUSE": Effect("RunPaused"),
    "RESUME": _NO_EFFECT,
    "CANCEL": _CANCELLED,
    "RETRY_STEP Now": Effect("StepStarted Now", attempt=2),
    "RETRY_STEP Now, forced": Effect("StepStarted Now", attempt=2),
    "RETRY_RUN": NEW_RUN,
    "RETRY_RUN, forced": NEW_RUN,
    "SKIP_STEP First": Effect("StepSkipped First", attempt=2, later=True),
    "SKIP_STEP Now": Effect("StepSkipped Now", attempt=2),
    "SKIP_STEP Later": Effect("StepSkipped Later", later=True),
    "APPROVE the plan": Effect("RunApproved"),
    "APPROVE Now": Effect("StepCompleted Now"),
    "REJECT the plan": Effect("RunFailed", text="REJECTED"),
    "REJECT Now": Effect("StepFailed Now", text="REJECTED"),
    "UPDATE_PARAMS": Effect("StepCompleted Later", text="red plain workspace", later=True),
    "INJECT_OVERRIDE First": Effect("StepStarted First", text="overriddenBy", later=True),
    "INJECT_OVERRIDE Later": Effect("StepCompleted Later", text="blue changed workspace", later=True),
    "UPDATE_TARGET First": Effect("StepStarted First", text="overriddenBy", later=True),
    "UPDATE_TARGET Later": Effect("StepCompleted Later", text="blue plain elsewhere", later=True),
    "EMERGENCY_STOP": _CANCELLED,
    "ESCALATE_ALERT": Effect("AlertRaised", text="ESCALATED"),
}
_IN_A_STATE: Final[Mapping[tuple[str, str], Effect]] = {
    ("PAUSE", "paused"): _NO_EFFECT,
    ("RESUME", "paused"): Effect("RunResumed"),
    # Nothing drives a run that has not been started: it ends when a process takes it up.
    ("CANCEL", "approved"): Effect("RunCancelled", later=True),
    ("EMERGENCY_STOP", "approved"): Effect("RunCancelled", later=True),
    # `Now` is run again when the pause ends.
    ("RETRY_STEP Now, forced", "paused"): Effect("StepStarted Now", attempt=2, later=True),
    # `Now` is rejected, and the flow continues at `First`.
    ("INJECT_OVERRIDE First", "asking"): Effect("StepStarted First", 2, "overriddenBy", later=True),
    ("UPDATE_TARGET First", "asking"): Effect("StepStarted First", 2, "overriddenBy", later=True),
}


def signal_of(row: str) -> str:
    return row.split()[0].rstrip(",")


def answer_of_run(row: str, state: str) -> str:
    """What the run answers to those who may send this and give a reason."""
    answers = WHEN_ENDED.get(row, _RUN_TERMINAL) if state in ENDED else WHEN[row]
    return ACCEPTED if answers[state] == "yes" else answers[state]


def effect_of(row: str, state: str) -> Effect:
    return _IN_A_STATE.get((row, state), _EFFECTS[row])
