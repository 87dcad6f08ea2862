"""Creates a run as a part of another change."""

from collections.abc import Sequence

import apsw

from podium.log.runs import check_new_run
from podium.ports.schedule_changes import PreparedRun
from podium.ports.store import CreatedRun
from podium.stores import rules, texts
from podium.stores.sqlite import contents as contents_sql
from podium.stores.sqlite import log
from podium.stores.sqlite.appending import record_audit
from podium.stores.sqlite.moments import Moment


def checked_run(run: PreparedRun) -> Sequence[rules.Content]:
    """As in `create_run`; contents are hashed before anything is locked."""
    check_new_run(run.new)
    texts.check_texts_of_run(run.new)
    texts.check_contents(run.contents)
    texts.check_audit(run.audit)
    rules.check_writes(run.writes)
    return rules.contents_of(run.contents)


def create(
    db: apsw.Connection, at: Moment, run: PreparedRun, contents: Sequence[rules.Content]
) -> CreatedRun:
    """Refuses before anything is written."""
    created, number = log.create_run(db, at, run.new, run.writes)
    if number is not None:
        contents_sql.keep(db, number, contents)
        record_audit(db, run.audit)
    return created
