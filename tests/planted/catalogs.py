"""Violations of docs/conformance/registration-orchestrator.md: the catalogs for Consul and PostgreSQL."""

from typing import Final

from tests.planted.edits import drop, rewrite, swap
from tests.planted.faults import Fault, fault

_CONSUL = "catalogs/consul.py"
_SERVICES = f"{_CONSUL}:ConsulServices"
_SETTINGS = "catalogs/consul_settings.py"
_STREAM = "catalogs/json_stream.py"
_TABLE = "catalogs/postgres/table.py:PostgresTable"
_SQL = "catalogs/postgres/statements.py"
_MIGRATIONS = "catalogs/postgres/migrations.py"
_FIRST = "catalogs/postgres/migrations/0001_registrations.sql"

FAULTS: Final[list[Fault]] = [
    fault(
        "RC01",
        "a service is not removed from Consul",
        swap(f"{_SERVICES}.deregister", "str(node_id)", "str(node_id)[1:]"),
    ),
    fault(
        "RC01",
        "only the first page of services is listed",
        drop(f"{_SERVICES}.services", "yield page", nth=1),
    ),
    fault(
        "RC01",
        "what Consul does not accept is sent",
        swap(f"{_CONSUL}:_described", "checked_service(service)", "service"),
    ),
    fault(
        "RC01",
        "a list that ends early is a shorter list",
        drop(f"{_STREAM}:objects_of", "if not reader.is_done: ..."),
    ),
    fault(
        "RC02",
        "a change is made on any revision",
        rewrite(_SQL, "stored.revision = %(expected)s::bigint\n", "true\n"),
    ),
    fault(
        "RC02",
        "the same change is made again",
        rewrite(_SQL, "stored.last_change <> excluded.last_change", "true"),
    ),
    fault(
        "RC02",
        "the row for others stays without the projection's change",
        rewrite(
            _SQL,
            "FROM changed WHERE %(status)s::text = 'registered'",
            "FROM (SELECT %(node_id)s::uuid AS node_id) AS any_row WHERE %(status)s::text = 'registered'",
        ),
    ),
    fault(
        "RC02",
        "a renewed deadline moves back",
        rewrite(
            _SQL,
            "greatest(stored.liveness_deadline, excluded.liveness_deadline)",
            "excluded.liveness_deadline",
        ),
    ),
    fault(
        "RC02",
        "a concurrent heartbeat moves a deadline back",
        rewrite(_SQL, "    ORDER BY node_id FOR NO KEY UPDATE\n", "    ORDER BY node_id\n"),
    ),
    fault(
        "RC02",
        "a heartbeat of an older epoch counts",
        rewrite(_SQL, "given.epoch >= locked.epoch AND ", ""),
    ),
    fault(
        "RC03",
        "an error shows what Consul answered",
        swap(f"{_SERVICES}._put", "_refusal(answer.status_code)", "CatalogRefused(answer.text)"),
    ),
    fault(
        "RC03",
        "an error shows the row that PostgreSQL refuses",
        swap(
            "catalogs/postgres/connections.py:Connections.translate_error",
            "state or type(error).__name__",
            "error",
        ),
    ),
    fault(
        "RC03",
        "a traceback shows what PostgreSQL said",
        swap("catalogs/postgres/connections.py:without_causes", "raise error from None", "raise"),
    ),
    fault(
        "RC04",
        "the token is not sent",
        swap(f"{_SETTINGS}:ConsulConnection.__init__", "{'X-Consul-Token': token} if token else {}", "{}"),
    ),
    fault(
        "RC04",
        "a list that the token does not see in full is taken for all",
        drop(f"{_CONSUL}:_check_list", "if answer.headers.get(...) == 'true': ..."),
    ),
    fault(
        "RC04",
        "any certificate is trusted",
        swap(f"{_SETTINGS}:ConsulConnection.__init__", "_trusted(...)", "False"),
    ),
    fault(
        "RC04",
        "an unknown datacenter is a server that failed",
        drop(f"{_SERVICES}.check", "if self._datacenter is not None: ..."),
    ),
    fault(
        "RC05",
        "installations share an external node",
        swap(f"{_SETTINGS}:external_node", "readable[:_MAX_READABLE]", "'podium'"),
        swap(f"{_SETTINGS}:external_node", "f'{environment}/{namespace}'", "'podium'"),
    ),
    fault(
        "RC05",
        "installations share the registration tables",
        drop(f"{_TABLE}._check_owner", "if rows and rows != [(owner,)]: ..."),
    ),
    fault(
        "RC06",
        "dead connections are lent again",
        swap("postgres.py:ConnectionPool._take_idle", "_is_readable(connection)", "False"),
    ),
    fault(
        "RC06",
        "a Consul that is away is a defect",
        swap(f"{_CONSUL}:_failures", "raise _unreachable(error) from None", "raise"),
    ),
    fault(
        "RC07",
        "tables of a newer version are used",
        drop(f"{_MIGRATIONS}:_applied", "if number > VERSION: ..."),
    ),
    fault(
        "RC07",
        "tables are made in the schema of another program",
        drop(f"{_MIGRATIONS}:_applied", "if not tables >= _OURS: ..."),
    ),
    fault(
        "RC07",
        "two processes make the tables",
        drop(f"{_MIGRATIONS}:migrate", "await connection.execute('SELECT pg_advisory_xact_lock(%s)', ...)"),
    ),
    fault(
        "RC08",
        "due nodes are searched in all rows",
        rewrite(
            _FIRST,
            "CREATE INDEX registration_projection_due ON registration_projection (due_at, node_id) WHERE due_at IS NOT NULL;",
            "",
        ),
    ),
    fault(
        "RC08",
        "a page is searched from the first row",
        rewrite(_SQL, "WHERE node_id > %s ", "WHERE node_id::text > %s::text "),
    ),
    fault(
        "RC08",
        "objects that were read stay in memory",
        swap(
            f"{_STREAM}:_Reader.add",
            "self._pending = self._pending[place:]",
            "self._pending, self._kept = self._pending[place:], [*getattr(self, '_kept', ()), *found]",
        ),
    ),
    fault(
        "RC08",
        "all services belong to one node of Consul",
        swap(f"{_SERVICES}.node_of", "node_id.hex[:_DIGITS]", "'00'"),
    ),
]
