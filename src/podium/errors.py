"""The base of every error that Podium raises on purpose, and those that cross its layers.

    PodiumError
    ├── InvalidId               an id, a step path or a name breaks its grammar
    ├── InvalidEvent            an event that no store may keep
    │   └── PayloadTooLarge     over 256 KiB: large values belong into artifacts
    ├── RunNotFound             no such run, or not one of this tenant: the same answer
    ├── RunRequestConflict      the same request id with other inputs or another plan
    ├── StaleFence              the writer has lost its lease
    ├── LogMoved                something was appended after what the writer had read; carries what it missed
    ├── RunRefused              a limit is reached and the policy is REJECT
    ├── RunNotPrunable          an open run, or one with undelivered events
    ├── StoreUnavailable        the store did not answer in time or cannot write; nothing was acknowledged
    ├── ContentMissing          a plan, workflow file or large value that the store does not have
    ├── ContentDamaged          the store has other bytes than were put
    ├── StoreVersion            the database was made by a newer Podium, or is no database of Podium
    ├── ArtifactNotFound          ports/artifacts.py  pruned, or another store
    ├── ArtifactCorrupt           ports/artifacts.py  the bytes are not those that were put
    ├── ArtifactStoreUnavailable  ports/artifacts.py  disk full, no answer; nothing was acknowledged
    ├── SecretNotFound            ports/secrets.py    missing, empty or of another tenant: the same answer
    ├── SecretProviderFailed      ports/secrets.py    a source could not be asked or understood
    ├── ProviderMisconfigured     ports/provider.py   a setting that cannot work, or a missing variable
    ├── ProviderNotAvailable      ports/provider.py   nobody goes by that name, or it cannot be loaded
    ├── EvaluationError           expressions/evaluate.py an operation without a result
    │   └── ValueMissing          expressions/templates.py   a text needs a value that is not there
    ├── NotCanonical              plan/canonical.py   a value without canonical JSON
    ├── InvalidPlan               plan/loading.py       bytes that are no plan
    ├── CheckpointMismatch        machine/checkpoint.py  made under another plan or other rules
    ├── PathRefused               runtime/rundir.py   a path that leaves its directory
    ├── NotAsExpected             runtime/tasks/capturing.py
    ├── SecretMissing             runtime/tasks/host.py
    ├── OutputNotKept             runtime/tasks/placing.py    a full disk, a folder in the way
    ├── CapExceeded               runtime/tasks/caps.py       a step wrote more than it may
    │   ├── LogTooLarge
    │   ├── BodyTooLarge
    │   └── ArtifactTooLarge
    ├── AddressRefused            runtime/tasks/addresses.py  a host that no HTTP step may call
    ├── ExtraMissing              runtime/extras.py
    ├── NotReady                  runtime/preflight.py  several things that a run needs are missing
    ├── SecretTooShort            runtime/preflight.py  it could not be masked
    ├── LogDoesNotFit             runtime/drive.py    the log is not what the plan leads to
    ├── RunLocked                 runtime/lock.py     another process drives the run
    ├── RunExists, RunEndedAlready                    engines/local.py
    ├── PlanMissing               runtime/kept_plan.py
    ├── InvalidInput              operations/inputs.py
    ├── EnvFileRequired           operations/env_files.py  a resumed run needs its --env-file again
    ├── RunIsOver                 operations/signals.py
    ├── NotAllowed                operations/signals.py    a step asked something of its own run
    ├── TooManySignals            operations/signals.py
    ├── InvalidSignal             operations/signal_payloads.py  a form or a signal with what it should not have
    ├── WorkflowChanged           operations/structure.py  a run cannot go on with this workflow
    ├── NoProviders               runtime/tasks/agents.py
    ├── NoWorktree                runtime/tasks/worktrees.py  no git, no repository, no commit
    ├── ProviderMissing           runtime/preflight_agents.py  its program is not on PATH
    ├── InvalidExport             operations/transfer.py
    ├── StoreExists               operations/rebuilding.py  a store is rebuilt where there is none
    ├── UnknownStore              wiring.py
    └── ModelOnexError          nodes/errors.py     what the node specification asks for
        └── InvalidContract     nodes/contract.py   a contract file with problems, each with its position

An error carries a `code` that never changes its meaning; `docs/errors.md` has a heading for each. An error
of any other type is a defect in Podium and keeps its traceback.
"""

from collections.abc import Sequence


class PodiumError(Exception):
    """Something that Podium foresaw: its text says what happened and what to do next."""

    code: str = "PODIUM_ERROR"


class InvalidId(PodiumError):
    code = "INVALID_ID"


class InvalidEvent(PodiumError):
    code = "INVALID_EVENT"


class PayloadTooLarge(InvalidEvent):
    code = "PAYLOAD_TOO_LARGE"


class RunNotFound(PodiumError):
    code = "RUN_NOT_FOUND"

    def __init__(self, run_id: str) -> None:
        shown = run_id if len(run_id) <= 60 else f"{run_id[:57]}..."
        super().__init__(f"there is no run {shown!r}; `podium runs list` shows those there are")
        self.run_id = run_id


class RunRequestConflict(PodiumError):
    code = "RUN_REQUEST_CONFLICT"


class StaleFence(PodiumError):
    code = "STALE_FENCE"


class LogMoved(PodiumError):
    """Nothing was stored; `missed` are the records to fold first, in the order of the log."""

    code = "LOG_MOVED"

    def __init__(self, run_id: str, missed: Sequence[object]) -> None:
        super().__init__(f"run {run_id!r} has {len(missed)} newer records; fold them and decide again")
        self.missed = tuple(missed)


class RunRefused(PodiumError):
    code = "RUN_REFUSED"

    def __init__(self, limit: str, retry_after_seconds: int) -> None:
        super().__init__(f"{limit} is reached; try again in {retry_after_seconds} seconds")
        self.retry_after_seconds = retry_after_seconds


class RunNotPrunable(PodiumError):
    code = "RUN_NOT_PRUNABLE"


class StoreUnavailable(PodiumError):
    code = "STORE_UNAVAILABLE"


class ContentMissing(PodiumError):
    code = "CONTENT_MISSING"

    def __init__(self, run_id: str, name: str, why: str = "") -> None:
        super().__init__(
            f"the store does not have {name!r} of run {run_id!r}{why}; restore it from a backup of the store, or from "
            "the run's directory"
        )


class ContentDamaged(PodiumError):
    code = "CONTENT_DAMAGED"

    def __init__(self, run_id: str, name: str) -> None:
        super().__init__(
            f"{name!r} of run {run_id!r} is damaged: its bytes are not those that were stored; `podium store check` "
            "lists all damage, a backup of the store has the right bytes"
        )


class StoreVersion(PodiumError):
    code = "STORE_VERSION"
