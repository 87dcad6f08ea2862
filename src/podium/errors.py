"""The base of every error that Podium raises on purpose, and those that cross its layers.

    PodiumError
    ├── InvalidId                    an id, a step path or a name that breaks its grammar
    ├── InvalidEvent                 an event that no store may keep
    │   └── PayloadTooLarge          over 256 KiB: large values belong in artifacts
    ├── RunNotFound                  unknown run, or a run of another tenant: the same answer
    ├── InvalidSchedule              a schedule that cannot be used
    ├── ScheduleNotFound             unknown schedule, or a schedule of another tenant: the same answer
    ├── ScheduleExists               the id of a schedule is taken
    ├── BusFilterConflict            a bus was registered with another filter
    ├── RunRequestConflict           the same request id with other inputs or another plan
    │   └── RunRequestPruned         the request was carried out, and its run was removed since
    ├── StaleFence                   the writer has lost its lease
    ├── RunNotApproved               a run that needs an approval was to start without
    ├── PlanNotApproved              an approved run was to start with another plan
    ├── InvalidLabel                 log/labels.py                   a label of a run that is not allowed
    ├── InvalidConfiguration         a setting, or a value in a file of settings, that cannot be used
    ├── FileNotUsable                files.py                        a device, a pipe, a folder, or too large
    ├── LogMoved                     the log has grown since the writer read it; carries the missed records
    ├── RunRefused                   a limit is reached and the policy is REJECT
    ├── TenantClosed                 nothing starts in a tenant that was closed
    ├── ConcurrencyLimit             too many runs with this concurrency key
    ├── RunNotPrunable               an open run, or one with undelivered events
    ├── StoreUnavailable             the store did not answer in time or cannot write; nothing was acknowledged
    ├── ContentMissing               a plan, workflow file or large value that the store does not have
    ├── ContentDamaged               the bytes in the store are not the bytes that were put
    ├── StoreVersion                 the database was made by a newer Podium, or by another program
    ├── ArtifactNotFound             ports/artifacts.py              pruned, or in another store
    ├── ArtifactCorrupt              ports/artifacts.py              the bytes are not the bytes that were put
    ├── ArtifactStoreUnavailable     ports/artifacts.py              disk full or no answer; nothing was acknowledged
    ├── BucketUnreachable            ports/artifacts.py              the configured bucket cannot be written
    ├── BusUnavailable               ports/bus.py                    the bus does not answer; what waits is kept
    ├── BusRefused                   ports/bus.py                    credentials or settings that the bus refuses
    ├── DeliveryPostponed            ports/bus.py                    this process cannot deliver it, another may
    ├── TopicRefused                 ports/bus.py                    a topic that is missing or not allowed
    ├── MessageRefused               ports/bus.py                    a message that its topic does not accept
    ├── CatalogUnavailable           ports/catalog.py                a catalog of nodes cannot be reached
    ├── CatalogRefused               ports/catalog.py                a catalog refuses a token or a value
    ├── CatalogVersion               ports/catalog.py                tables of a newer Podium, or of another program
    ├── RevisionConflict             ports/catalog.py                a registration has changed since it was read
    ├── SecretNotFound               ports/secrets.py                the configured source of a secret has no value
    ├── SecretProviderFailed         ports/secrets.py                a source of secrets failed or gave no usable value
    ├── ProviderMisconfigured        ports/provider.py               a setting that cannot work, or a missing variable
    ├── ProviderNotAvailable         ports/provider.py               unknown provider, or one that cannot be loaded
    ├── EvaluationError              expressions/evaluate.py         an operation without a result
    │   ├── ValueMissing             expressions/templates.py        a text refers to a value that does not exist
    │   ├── MessageTooLarge          machine/publishing.py           a message that does not fit into its event
    │   └── VariableTooLarge         runtime/tasks/host.py           a value that no environment can hold
    ├── NotCanonical                 plan/canonical.py               a value without canonical JSON
    ├── InvalidPlan                  plan/loading.py                 bytes that are not a plan
    │   └── InvalidStep              plan/loading.py                 an unknown kind of step, or unknown fields
    ├── PlanVersionUnknown           plan/loading.py                 a plan of another version of the schema
    ├── CapabilityUnknown            plan/capabilities.py            a plan asks for what no engine is known to have
    ├── CapabilityNotSupported       plan/capabilities.py            a plan asks for what this engine does not have
    ├── PlanUriNotAllowed            plan/locations.py               a place that plans are not fetched from
    ├── PlanIntegrityFailed          plan/references.py              the bytes are not those of the reference
    ├── PlanRefMismatch              plan/references.py              the plan is not the one that the reference names
    ├── PlanRefExpired               plan/references.py
    ├── SignatureMalformed           access/signatures.py            a file that does not hold signatures of a plan
    ├── PlanNotSigned                access/verdicts.py              a signature is required, and there is none
    ├── PlanSignatureInvalid         access/verdicts.py              made with another key, or about another plan
    ├── PlanSignatureExpired         access/verdicts.py
    ├── PlanSignerUnknown            access/verdicts.py              signed with a key that is not trusted
    ├── PlanKeyExpired               access/verdicts.py              signed with a key that is not trusted any more
    ├── PlanUnavailable              ports/plan_source.py            the plan cannot be fetched or published now
    ├── PlanNotFound                 ports/plan_source.py            nothing was published at that URI
    ├── PlanTooLarge                 ports/plan_source.py
    ├── PlanExists                   ports/plan_source.py            another plan was published at that URI
    ├── CheckpointMismatch           machine/checkpoint.py           written under another plan or other rules
    ├── LogDoesNotFit                runtime/run_log.py              the log does not follow from the plan
    ├── AttemptTakenOver             runtime/attempt_lease.py        another worker carries out the attempt
    ├── AttemptNotStarted            runtime/attempts.py             a run cannot be prepared on the worker's host
    ├── WorkerStopped                runtime/engine_attempt.py       the worker ended while the attempt was under way
    ├── ArtifactNotStored            runtime/run_artifacts.py        the bucket did not take what a step has left
    ├── RunLocked                    runtime/lock.py                 another process drives the run
    │   └── NotAsDecided             runtime/reopening.py            another process has changed the run since then
    ├── RunEndedAlready              runtime/reopening.py            the run has ended and cannot be resumed
    ├── OtherEngine                  runtime/other_engines.py        the run is carried by another engine than this one
    ├── PathRefused                  runtime/rundir.py               a path that leaves its directory
    ├── PlanMissing                  runtime/plan_file.py            the run's plan is lost
    ├── WorkspaceMissing             runtime/workspaces.py           the folder that the run works in does not exist
    ├── InvalidSigningKey            runtime/ed25519.py              not a private key for signatures, or not private
    ├── ExtraMissing                 runtime/extras.py               an optional dependency is not installed
    ├── NotDelivered                 runtime/notifications.py        a target did not take a notification
    ├── NotReady                     runtime/preflight.py            several things that a run needs are missing
    ├── SecretTooShort               runtime/preflight.py            a secret too short to be masked
    ├── FunctionNotRegistered        runtime/preflight.py            `python: NAME`, and the program registered none
    ├── ClientMissing                runtime/preflight.py            ssh or a container runtime is not on PATH
    ├── ProviderMissing              runtime/preflight_agents.py     the program of a provider is not on PATH
    ├── NoProviders                  runtime/tasks/agents.py         an agent step without providers
    ├── NotAsExpected                runtime/tasks/capturing.py      a step's output does not match `expect`
    ├── SecretMissing                runtime/tasks/host.py           a secret is not set
    ├── PlaceProblem                 runtime/tasks/places.py         a command elsewhere was lost, or not started
    │   ├── SshLost                  runtime/tasks/ssh.py            the connection broke while the command ran
    │   └── SshFailed                runtime/tasks/ssh.py            no connection to the other machine
    ├── OutputNotKept                runtime/tasks/paths.py        a step's output cannot be written
    ├── CapExceeded                  runtime/tasks/caps.py           a step wrote more than it may
    │   ├── LogTooLarge              runtime/tasks/caps.py
    │   ├── BodyTooLarge             runtime/tasks/caps.py
    │   └── ArtifactTooLarge         runtime/tasks/caps.py
    ├── AddressRefused               runtime/tasks/addresses.py      a host that no HTTP step may call
    ├── NoWorktree                   runtime/tasks/worktrees.py      git, the repository or its first commit is missing
    ├── ReplayMiss                   runtime/tasks/recordings.py     the recording has no answer to this question
    ├── RecordingUnusable            runtime/tasks/recordings.py     a folder or file that cannot be used as a recording
    ├── RunExists                    engines/creation.py             the run id is taken
    ├── NotForPool                   engines/creation.py             hosts of a pool cannot carry out the request
    ├── EngineUnavailable            engines/errors.py               the server of an engine does not answer
    ├── EngineRefused                engines/errors.py               unknown namespace, or credentials that are refused
    ├── NoWorker                     engines/errors.py               no worker serves the queue of a run
    ├── NotItsExecution              engines/opening.py              an execution of a run that it was not started for
    ├── ExecutionExists              engines/temporal/client.py      the id of the execution is in use on the server
    ├── OtherRules                   engines/hosting.py              started by a version that decides differently
    ├── AmbiguousRun                 operations/run_names.py         the start of an id that several runs have
    ├── InvalidFilter                operations/run_filters.py       a filter of runs that means nothing
    ├── InvalidInput                 operations/inputs.py            an input that the workflow does not accept
    ├── InvalidWorkflow              operations/workflows.py         problems in a workflow, each with its position
    ├── InvalidPlanRef               operations/plans.py             a reference that cannot be understood
    ├── EnvFileRequired              operations/env_files.py         a resumed run needs its --env-file again
    ├── NotTranslatable              operations/importing/translation.py   nothing of a file can be translated
    ├── EnvFileNotUsable             operations/env_files.py         a file that `env_file` names cannot be read
    ├── WorkerNotFound               operations/fleet.py             a worker that serves no runs of the tenant
    ├── InvalidLimit                 operations/limits.py            a limit that makes no sense
    ├── LimitNotFound                operations/limits.py
    ├── InvalidSubmission            operations/submitting.py        a start time or priority that no run can have
    ├── RunIsOver                    operations/signal_refusals.py   a signal to a run that has ended
    ├── NotAllowed                   operations/access.py            not the role for it, or a step of the run itself
    ├── ReasonRequired               operations/access.py
    ├── TenantForbidden              operations/access.py            the actor has no role in the tenant
    ├── TokenNotFound                operations/tokens.py
    ├── InvalidToken                 operations/tokens.py            a token that would allow nothing
    ├── TenantRefused                operations/tenants.py           opening an open tenant, or closing `default`
    ├── CsrfRefused                  server/csrf.py                  a cookie, and no sign that the request is ours
    ├── RateLimited                  server/rate_limiting.py         too many requests of a token or a tenant
    ├── RefusedBefore                operations/signal_decisions.py  the first decision about a repeated signal
    ├── RunNotOver                   operations/signal_refusals.py   only a run that has ended is retried
    ├── PlanNotPublished             operations/published_plans.py   no such plan in this tenant
    ├── LogNotFound                  operations/log_views.py         the run has no such log
    ├── TooManySignals               operations/signal_refusals.py
    ├── SignalWouldBeIgnored         operations/signal_refusals.py   nothing in the run can react to it; it was not sent
    │   ├── StepRunning              operations/signal_refusals.py   the step it names is running
    │   ├── StepTerminal             operations/signal_refusals.py   the step it names has ended
    │   └── StepNotTerminal          operations/signal_refusals.py   the step it names has not ended
    ├── SignalDuplicate              operations/signal_decisions.py  the id of an earlier signal, with other content
    ├── ApprovalPlanMismatch         operations/run_approval.py      an approval of another plan than the run has
    ├── ApprovalDecided              operations/run_approval.py      the start of the run was decided about before
    ├── InvalidNodeName              operations/node_starter.py      a name that no package with a node can have
    ├── InvalidSignal                operations/signal_payloads.py   a form or a signal with unexpected content
    ├── WorkflowChanged              operations/structure.py         a run cannot continue with this workflow
    ├── InvalidExport                operations/transfer.py          a file that is not a usable export
    ├── InvalidAuditKey              operations/audit_keys.py        a key that could be guessed
    ├── InvalidHook                  operations/hooks/defining.py    a hook that cannot be used
    ├── HookNotFound                 operations/hooks/defining.py
    ├── HookExists                   operations/hooks/defining.py    the name of a hook is taken, in some tenant
    ├── InvalidWebhook               operations/hooks/webhooks.py    a webhook that cannot be used
    ├── WebhookNotFound              operations/hooks/webhooks.py
    ├── WebhookExists                operations/hooks/webhooks.py    the name of a webhook is taken, in some tenant
    ├── ReceiverRefused              ports/receivers.py              an address that nothing is sent to
    ├── ReceiverFailed               ports/receivers.py              a receiver has not accepted a message
    ├── HookRefused                  operations/hooks/delivering.py  a delivery that is not signed as it should be
    ├── HookReplayed                 operations/hooks/delivering.py  a delivery that was accepted before
    ├── HookRateLimited              operations/hooks/delivering.py
    ├── InvalidDelivery              operations/hooks/delivering.py  a body that does not match the hook's schema
    ├── ScheduleChanged              operations/schedules/changing.py  changed by others again and again
    ├── BackfillActive               operations/schedules/changing.py  one backfill of a schedule at a time
    ├── StoreExists                  operations/rebuilding.py        a store is rebuilt only where none exists
    ├── MetricsUnavailable           telemetry/metrics.py            the address for metrics cannot be used
    ├── UnknownBus                   wiring/buses.py                 unsupported address of a bus
    ├── UnknownCatalog               wiring/catalogs.py              unsupported address of a catalog
    ├── UnknownStore                 wiring/stores.py                unsupported store URL
    ├── ListeningRefused             runtime/listening.py            an address where tokens could be read, or in use
    ├── BadRequest                   server/problems.py              a request that cannot be understood
    │   ├── UnsupportedMediaType     server/problems.py              a body that is not JSON
    │   ├── RequestTooLarge          server/problems.py              a body of more than 1 MiB
    │   ├── PathNotFound             server/problems.py              nothing is at this path
    │   └── MethodNotAllowed         server/problems.py              not with this method
    ├── ServerError                  client/errors.py                the server refused; it has the server's code
    ├── ServerUnreachable            client/errors.py                no answer came
    ├── InvalidAnswer                client/errors.py                not an answer of a Podium server
    ├── InternalError                server/problems.py              a defect; the log of the server has it
    ├── InvalidNode                  nodes/base.py                   a node class that breaks a rule of its type
    ├── NotRegistration              nodes/registration/reading.py   a contract without a step of the registration
    ├── NodeNotAvailable             nodes/registry.py               a node that is not installed, or lacks a port
    ├── NodeError                    nodes/errors.py                 raised by a node on purpose: a code without a text
    │   ├── EffectExecutionError     nodes/errors.py
    │   ├── ReducerError             nodes/errors.py
    │   ├── AggregationError         nodes/errors.py
    │   ├── CircuitOpen              nodes/errors.py                 the breaker of a service is open
    │   ├── LeaseExpired             nodes/errors.py                 the order of an action is out of date
    │   ├── EpochConflict            nodes/errors.py                 the action was carried out before
    │   ├── TopicNotDeclared         nodes/publishing.py             a node publishes to a topic of no contract
    │   ├── MessagesTooLarge         nodes/publishing.py             what a node publishes is too large
    │   └── NodeDataInvalid          nodes/errors.py
    │       ├── NodeInputInvalid     nodes/errors.py                 does not fit the input model of a node
    │       └── NodeOutputInvalid    nodes/errors.py                 does not fit the output model of a node
    └── ModelOnexError               nodes/errors.py                 the error type of the node specification
        └── InvalidContract          nodes/contract.py               a contract file with problems and their positions

An error carries a `code` that never changes its meaning; `docs/errors.md` has a heading for each. An error
of any other type is a defect in Podium and keeps its traceback.
"""

from collections.abc import Sequence

from podium.text import shortened


class PodiumError(Exception):
    """A foreseen error: its text says what happened and what to do next.

    `subject`: what a refused value is called where it is refused; `valid`: what would be right.
    """

    code: str = "PODIUM_ERROR"

    def __init__(self, message: str = "", subject: str = "", valid: str = "") -> None:
        super().__init__(message)
        self.subject = subject
        self.valid = valid


class InvalidId(PodiumError):
    code = "INVALID_ID"


class InvalidEvent(PodiumError):
    code = "INVALID_EVENT"


class PayloadTooLarge(InvalidEvent):
    code = "PAYLOAD_TOO_LARGE"


class RunNotFound(PodiumError):
    code = "RUN_NOT_FOUND"

    def __init__(self, run_id: str) -> None:
        shown = shortened(run_id)
        super().__init__(f"run {shown!r} not found; `podium runs list` lists all runs")
        self.run_id = run_id


class RunRequestConflict(PodiumError):
    code = "RUN_REQUEST_CONFLICT"


class RunRequestPruned(RunRequestConflict):
    code = "RUN_REQUEST_PRUNED"

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"request {shortened(request_id)!r} was carried out, and its run was removed since; use a new request id"
        )


class InvalidSchedule(PodiumError):
    code = "SCHEDULE_INVALID"


class ScheduleNotFound(PodiumError):
    code = "SCHEDULE_NOT_FOUND"

    def __init__(self, schedule_id: str) -> None:
        super().__init__(
            f"schedule {shortened(schedule_id)!r} not found; `podium schedule list` lists all schedules"
        )


class ScheduleExists(PodiumError):
    code = "SCHEDULE_EXISTS"

    def __init__(self, schedule_id: str) -> None:
        super().__init__(
            f"schedule {shortened(schedule_id)!r} exists already; replace it with --replace, or use another id"
        )


class BusFilterConflict(PodiumError):
    code = "BUS_FILTER_CONFLICT"


class StaleFence(PodiumError):
    code = "STALE_FENCE"


class RunNotApproved(PodiumError):
    """The plan of the run has not been approved, so nothing of it may start."""

    code = "RUN_NOT_APPROVED"


class PlanNotApproved(PodiumError):
    """The approval of a run is for another plan than the one that is about to run."""

    code = "PLAN_NOT_APPROVED"

    def __init__(self, run_id: str, approved: str | None, actual: str | None) -> None:
        super().__init__(
            f"run {run_id!r} was approved for the plan with SHA-256 {approved or 'unknown'}, and this one has "
            f"{actual or 'none'}: it does not run. `podium rerun {run_id}` starts a new run, which needs its own "
            "approval"
        )


class InvalidConfiguration(PodiumError):
    """A file of settings that cannot be read, or a value in it that cannot be used."""

    code = "CONFIG_INVALID"


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
        self.limit = limit
        self.retry_after_seconds = retry_after_seconds


class TenantClosed(PodiumError):
    code = "TENANT_CLOSED"

    def __init__(self, tenant_id: str) -> None:
        super().__init__(
            f"tenant {tenant_id!r} is closed: nothing starts in it; an owner reopens it with `podium tenant open`"
        )


class ConcurrencyLimit(PodiumError):
    """The maximum number of runs with this key is active, and the workflow says to refuse more."""

    code = "CONCURRENCY_LIMIT"


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
