"""Violations of docs/conformance/operating.md."""

from typing import Final

from tests.planted.edits import after, before, body, drop, start, swap
from tests.planted.faults import Fault, fault

_DRIVER = "runtime/drive.py:Driver"
_RUN_LOG = "runtime/run_log.py:RunLog"
_KEEPER = "runtime/lease_keeper.py:LeaseKeeper"
_OUTAGES = "runtime/outages.py:Outages"
_SLOTS = "runtime/slots.py:SlotWaiter"
_CLAIM = "engines/claims.py:Claim"
_CLOCK = "runtime/drive_clock.py:DriveClock"
_LOCK = "runtime/lock.py:RunLock"
_WRITER = "stores/sqlite/writer.py:Writer"
_HAS_NO_SLOT = "slots is not None and not rules.has_slot(...)"

_EXPIRED = "operations/expired_files.py"
_WITH_EXPIRY = "runtime/expiring.py:with_expiry"
_UPLOADS = "runtime/tasks/uploading.py:ResultUploads"
_RUN_ARTIFACTS = "runtime/run_artifacts.py:RunArtifacts"

FAULTS: Final[list[Fault]] = [
    # --- outages ----------------------------------------------------------------------------------
    fault(
        "OP01",
        "the driver gives up after 3 seconds",
        swap(f"{_RUN_LOG}.append", "return await self._outages.outlast(...)", "raise"),
    ),
    fault(
        "OP01",
        "a log that cannot be read ends the run",
        swap(f"{_RUN_LOG}._outlast", "return await self._outages.outlast(...)", "raise"),
    ),
    fault(
        "OP01",
        "PODIUM_STORE_OUTAGE is ignored",
        swap("wiring/engines.py:local_engine", "seconds_or(outage, 'PODIUM_STORE_OUTAGE', OUTAGE)", "OUTAGE"),
    ),
    fault(
        "OP01",
        "the store is waited for without end",
        swap(f"{_OUTAGES}.outlast", "asyncio.get_running_loop().time() >= deadline", "False"),
    ),
    fault(
        "OP01",
        "steps start while the store is away",
        swap(
            f"{_DRIVER}._commit",
            "appended = await self._append(batch)",
            "acts, batch.acts = batch.acts, []\nfor act in acts:\n    act()\nappended = await self._append(batch)",
        ),
    ),
    fault("OP01", "views do not say that the store is away", body(f"{_OUTAGES}._say", "return")),
    fault(
        "OP01",
        "a driver that prepares its run does not wait for the store",
        swap(
            "engines/driving.py:drive_claimed",
            "patiently(claimed.reopening.check)",
            "claimed.reopening.check()",
        ),
    ),
    fault(
        "OP01",
        "a run in line does not wait for the store",
        swap(f"{_SLOTS}.wait", "self._patiently is not None", "False"),
    ),
    fault(
        "OP01",
        "a second interrupt changes nothing before the run is driven",
        drop("cli/interrupts.py:interruptible", "if asked > 1: ..."),
    ),
    fault(
        "OP01",
        "views do not say that the store is back",
        drop(f"{_OUTAGES}.succeeded", "self._say(...)"),
    ),
    fault(
        "OP02",
        "a lapsed lease is not claimed again",
        start(f"{_KEEPER}.claim_again", "driver.revoke(_taken_over(self.lease.run_id))\nreturn False"),
    ),
    fault(
        "OP02",
        "a driver takes the lease of another for its own",
        swap(f"{_KEEPER}.claim_again", "held.lease.owner != self.lease.owner", "False"),
    ),
    fault(
        "OP02",
        "a run without a slot starts steps",
        drop(f"{_KEEPER}.claim_again", "driver.suspend(...)"),
    ),
    # --- concurrency ------------------------------------------------------------------------------
    fault(
        "OP03",
        "a lease needs no slot in memory",
        swap("stores/memory/leases.py:MemoryLeases.claim", _HAS_NO_SLOT, "False"),
    ),
    fault(
        "OP03",
        "a lease needs no slot in SQLite",
        swap("stores/sqlite/store_leases.py:SqliteLeases.claim", _HAS_NO_SLOT, "False"),
    ),
    fault(
        "OP03",
        "SQLite looks for a slot before the transaction",
        swap("stores/sqlite/store_leases.py:SqliteLeases.claim", _HAS_NO_SLOT, "False"),
        before(
            "stores/sqlite/store_leases.py:SqliteLeases.claim",
            "return await self._writer.write(change)",
            "if slots is not None and not rules.has_slot(await self.slot_line(run_id), run_id, slots):\n    return None",
        ),
    ),
    fault(
        "OP03",
        "PostgreSQL counts slots without a lock",
        drop("stores/postgres/leases.py:_is_full", "await connections.lock(...)"),
    ),
    fault(
        "OP03",
        "runs in line take no slot into account",
        swap("stores/rules.py:has_slot", "others + ahead < slots", "others < slots + ahead"),
    ),
    fault(
        "OP04",
        "priority is ignored in SQLite",
        swap(
            "stores/sqlite/ownership.py",
            "_OF_KEY.format(attempt=IN_LINE, order=...)",
            "_OF_KEY.format(attempt=IN_LINE, order='r.number')",
        ),
    ),
    fault(
        "OP04",
        "the order of arrival is ignored in SQLite",
        swap(
            "stores/sqlite/ownership.py",
            "_OF_KEY.format(attempt=IN_LINE, order=...)",
            "_OF_KEY.format(attempt=IN_LINE, order='r.priority DESC, r.number DESC')",
        ),
    ),
    fault(
        "OP04",
        "priority is ignored in memory",
        swap("stores/memory/leases.py:MemoryLeases.slot_line", "(-k.row.priority, k.number)", "k.number"),
    ),
    fault(
        "OP04",
        "the order of arrival is ignored in memory",
        swap(
            "stores/memory/leases.py:MemoryLeases.slot_line",
            "(-k.row.priority, k.number)",
            "(-k.row.priority, -k.number)",
        ),
    ),
    fault(
        "OP04",
        "the first that looks gets the slot",
        swap("stores/rules.py:has_slot", "others + ahead", "others"),
    ),
    fault(
        "OP04",
        "the place in line is not shown",
        swap("runtime/slots.py:describe_line", "run_id in waiting", "False"),
    ),
    fault(
        "OP04",
        "a run in line does not notice that it is cancelled",
        body(f"{_SLOTS}._is_cancelled_in_log", "return False"),
    ),
    fault(
        "OP05",
        "a run that was refused stays open",
        drop(f"{_CLAIM}._lease_with_slot", "await self._end_before_start(run)"),
    ),
    fault(
        "OP05", "reject waits", swap(f"{_SLOTS}._look", "self._concurrency.on_conflict == 'reject'", "False")
    ),
    fault(
        "OP06",
        "cancel does not wait for the end",
        after(
            f"{_SLOTS}._make_room", "await self._cancel(oldest)", "await self._store.release(line.holders[0])"
        ),
    ),
    fault(
        "OP06",
        "the newest run is cancelled",
        swap(f"{_SLOTS}._make_room", "line.holders[0]", "line.holders[-1]"),
    ),
    fault(
        "OP06",
        "every run in line cancels another",
        drop(f"{_SLOTS}._make_room", "if line.waiting and line.waiting[0].run_id != self._run_id: ..."),
    ),
    fault(
        "OP06",
        "a cancel that the store did not answer is sent again as another one",
        swap(f"{_SLOTS}._cancel", "run_id not in self._cancels", "True"),
    ),
    fault("OP06", "cancel waits like queue", body(f"{_SLOTS}._make_room", "return")),
    fault(
        "OP07", "the slot of a dead process is not freed", body(f"{_SLOTS}._released_dead", "return False")
    ),
    fault(
        "OP07",
        "the place in line of a dead process is not freed",
        swap(f"{_SLOTS}._released_dead", "(*line.holders, *line.waiting)", "line.holders"),
    ),
    fault(
        "OP07",
        "a place in line never lapses",
        swap(
            "stores/memory/state.py:MemoryState._is_live",
            "held.expires > self._clock.elapsed()",
            "attempt == IN_LINE or held.expires > self._clock.elapsed()",
        ),
    ),
    # --- time and locks ---------------------------------------------------------------------------
    fault(
        "OP08",
        "timers wait by the wall clock",
        swap(f"{_CLOCK}.elapsed", "self._clock.elapsed()", "self._clock.now().timestamp()"),
        swap(f"{_CLOCK}.deadline", "self._clock.elapsed()", "self.elapsed()"),
    ),
    fault(
        "OP08",
        "decisions are made by the wall clock",
        body(f"{_CLOCK}.now", "return self._clock.now()"),
    ),
    fault(
        "OP08",
        "TimerFired has the time of the wall clock",
        swap(
            "runtime/batch.py:Batch.fold",
            "max(self._now(), pending.due)",
            "__import__('podium.wiring.stores', fromlist=['x']).system_clock().now().strftime('%Y-%m-%dT%H:%M:%S.%fZ')",
        ),
    ),
    fault(
        "OP08",
        "a timer fires when the loop says so",
        swap("runtime/timers.py:Timers._fire", "self._clock.elapsed() < deadline", "False"),
    ),
    fault(
        "OP08",
        "the wall clock does not decide after a restart",
        swap(f"{_CLOCK}.__init__", "clock.now()", "clock.now().replace(year=2000)"),
    ),
    fault("OP10", "commits are not synced", swap(f"{_WRITER}._make_durable", "self._wal.sync()", "pass")),
    fault(
        "OP10",
        "commits are acknowledged before they are synced",
        drop(f"{_WRITER}._commit_here", "self._make_durable([request])"),
        after(
            f"{_WRITER}._commit_here",
            "self._note_time(...)",
            "asyncio.get_running_loop().call_later(0.01, self._wal.sync)",
        ),
    ),
    fault(
        "OP10",
        "only what was written is synced",
        swap(
            f"{_WRITER}._make_durable",
            "self._wal.sync()",
            "if self._db is not None and self._db.changes(): self._wal.sync()",
        ),
    ),
    fault("OP10", "a failed sync is ignored", swap(f"{_WRITER}._make_durable", "_fail(stored, ...)", "pass")),
    fault(
        "OP10",
        "after a failed sync nothing is written again",
        drop(f"{_WRITER}._begin", "self._wal.repair()"),
    ),
    fault(
        "OP10",
        "the log of an earlier connection is synced",
        start(
            "stores/sqlite/durability.py:WalSync.attach",
            "if self._file is not None:\n    db.execute('PRAGMA synchronous = NORMAL')\n    return",
        ),
    ),
    fault(
        "OP11",
        "commits are synced inside the lock",
        drop("stores/sqlite/durability.py:WalSync.attach", "db.execute('PRAGMA synchronous = NORMAL')"),
        swap(f"{_WRITER}._fill", "db.execute('COMMIT')", "self._wal.sync()\ndb.execute('COMMIT')"),
    ),
    fault(
        "OP11",
        "the log is taken up inside the lock",
        swap(f"{_WRITER}._fill", "db.execute('COMMIT')", "db.execute('COMMIT')\nself._checkpoint()"),
    ),
    fault(
        "OP11",
        "a stopped process is named when patience ends",
        swap(f"{_WRITER}._lose_patience", "is_stopped(self._database.path)", "False"),
    ),
    fault(
        "OP09",
        "a damaged lock file is a held one",
        before(
            f"{_LOCK}._try",
            "if not self._is_current(file): ...",
            "if os.fstat(file).st_size and not _read(self._path):\n    os.close(file)\n    return False",
        ),
    ),
    fault(
        "OP09", "a deleted lock file is not put back", drop(f"{_LOCK}.refresh", "self._restore(self._lease)")
    ),
    fault(
        "OP09",
        "a lease whose holder is gone has to lapse",
        swap(f"{_CLAIM}.lease", "holders.is_gone(held.lease.owner)", "False"),
    ),
    fault(
        "OP09",
        "a driver without a lock file is not named",
        swap(f"{_CLAIM}.lock", "locked.holder is None", "False"),
    ),
    fault(
        "OP12",
        "a composite that failed is repeated as a whole",
        swap("machine/attempts.py:take_up", "kept is None", "True"),
    ),
    fault(
        "OP12",
        "every item of a loop that failed runs again",
        swap("machine/loops.py:scope_closed", "scope.verdict.status != 'completed'", "True"),
    ),
    fault(
        "OP12",
        "what a decided join stopped is lost",
        drop("machine/attempts.py:drop", "unfinished.keep_stopped(m, visit)"),
    ),
    fault(
        "OP12",
        "what completed while it was being stopped runs again",
        drop("machine/reopening.py:ended_late", "unfinished.keep_end(...)"),
    ),
    fault(
        "OP12",
        "a failed loop continues more items concurrently than it may",
        swap("machine/loops.py:fill", "room > 0 and loop.again", "loop.again"),
    ),
    fault(
        "OP12",
        "items that were never started are left out",
        swap("machine/continuing.py:_continue_loop", "loop.exit_reason == 'break'", "True"),
    ),
    # --- artifacts in a bucket --------------------------------------------------------------------
    fault(
        "OP13",
        "files are not copied to the bucket",
        swap(
            f"{_UPLOADS}._stored", "[await self._file(fact) for fact in payload.get('artifacts', ())]", "[]"
        ),
    ),
    fault(
        "OP13",
        "large values are not copied to the bucket",
        drop(f"{_UPLOADS}._stored", "with suppress(InvalidEvent): ..."),
    ),
    fault(
        "OP13",
        "the URI of a large value is not recorded",
        swap("runtime/spilling.py:RunValues.put", "self._bucket.uri_of(ref.sha256)", "None"),
    ),
    fault(
        "OP13",
        "runs with the same id share a prefix",
        body("runtime/run_artifacts.py:part_name", "return run_id"),
    ),
    fault(
        "OP14",
        "a driver does not fetch files from the bucket",
        drop("runtime/restoring.py:keep_or_restore", "await _fetch_files(...)"),
    ),
    fault(
        "OP14",
        "a directory that is looked at gets no files",
        swap("runtime/restoring.py:restore_directory", "await _fetch_files(...)", "pass"),
    ),
    fault(
        "OP14",
        "files that could not be fetched are forgotten",
        drop("runtime/restoring.py:restore_files", "if marks: ..."),
    ),
    fault(
        "OP14",
        "a rerun gets no files from the bucket",
        drop("operations/rerunning.py:carry_files_over", "await restore_step_files(...)"),
    ),
    fault(
        "OP14",
        "a rerun has no copy of its own in the bucket",
        body("engines/earlier.py:EarlierRun._take_artifacts_over", "return"),
    ),
    fault(
        "OP14",
        "a cached step gets no files from the bucket",
        start("runtime/reusing.py:Reuse._fetch_lost", "return False"),
    ),
    fault(
        "OP14",
        "the recorded URI is not looked at",
        swap(f"{_RUN_ARTIFACTS}._from_any", "self._bucket.holding(ref)", "None"),
    ),
    fault(
        "OP15",
        "the bucket is asked only once",
        swap(f"{_RUN_ARTIFACTS}._patiently", "loop.time() + pause > since + self._outage", "True"),
    ),
    fault(
        "OP15",
        "the bucket is waited for without end",
        swap(f"{_RUN_ARTIFACTS}._patiently", "loop.time() + pause > since + self._outage", "False"),
    ),
    fault(
        "OP15",
        "a step whose file is not stored completes",
        swap(f"{_UPLOADS}._ended", "_not_stored(result, error)", "result"),
    ),
    fault(
        "OP15",
        "a cancel waits for the bucket",
        swap(
            f"{_UPLOADS}._ended",
            "await stopping.wait(storing, within=None) == 'cancelled'",
            "await asyncio.wait((storing,)) is None",
        ),
    ),
    fault(
        "OP16",
        "the bucket is not asked before a run",
        drop("runtime/preflight.py:check_needs", "if around.bucket is not None and ...: ..."),
    ),
    fault(
        "OP16",
        "a bucket without a legal name is accepted",
        swap(
            "artifacts/address.py:parse_address", "not _BUCKET.fullmatch(bucket) or '..' in bucket", "False"
        ),
    ),
    fault(
        "OP16",
        "credentials of the bucket are not masked",
        swap(
            "runtime/tasks/host.py:TaskHost.of",
            "_BUCKET_VARIABLES if bucket is not None else frozenset()",
            "frozenset()",
        ),
    ),
    fault(
        "OP17",
        "prune leaves the artifacts in the bucket",
        body("operations/pruning.py:_remove_artifacts", "return"),
    ),
    fault(
        "OP17",
        "what prune could not reach is forgotten",
        drop("operations/pruning.py:_sweep", "await _remove_artifacts(...)"),
    ),
    fault(
        "OP17",
        "prune removes the artifacts of every run with such an id",
        swap("operations/pruning.py:_remove_artifacts", "part_name(run_id, first_event_id)", "run_id"),
    ),
    # --- files that expire ------------------------------------------------------------------------
    fault(
        "OP18",
        "a driver records files without the time when they expire",
        body(_WITH_EXPIRY, "return payload"),
    ),
    fault(
        "OP18",
        "a file whose event has large values does not expire",
        body("runtime/expiring.py:encoded_with_expiry", "return encoded"),
    ),
    fault(
        "OP18",
        "a worker records files without the time when they expire",
        swap("runtime/run_writer.py:RunWriter.end", "with_expiry(end.payload, at, ages)", "end.payload"),
    ),
    fault(
        "OP18",
        "a worker of a pool records files without the time when they expire",
        drop("engines/pool_run.py:PoolRun._drive", "artifact_ages=parts.artifact_ages"),
    ),
    fault(
        "OP18",
        "what a rerun takes over expires when the original does",
        swap(
            "runtime/takeover.py:Takeovers._copy",
            "with_expiry(payload, at, self._artifact_ages)",
            "payload",
        ),
    ),
    fault(
        "OP18",
        "files are removed before they expire",
        swap(f"{_EXPIRED}:_expired_files", "file.expires_at > now", "False"),
    ),
    fault(
        "OP18",
        "content is removed that has not expired elsewhere in the run",
        swap(f"{_EXPIRED}:_expired_files", "file.sha256 not in needed", "True"),
    ),
    fault(
        "OP18",
        "files are removed that an open run repeats",
        swap(f"{_EXPIRED}:prune_expired", "await _repeated_by_open_runs(parts, tenant_id)", "set()"),
    ),
    fault("OP18", "expired copies stay in the bucket", body(f"{_EXPIRED}:_remove_copy", "return False")),
    fault(
        "OP18",
        "a file is removed that is not what was recorded",
        swap(f"{_EXPIRED}:_remove_local", "not is_unchanged(path, file.sha256)", "False"),
    ),
]
