"""DBOS on SQLite: so many steps that do nothing, one after the other; prints how long they took."""

import sys
import time

try:  # DBOS wants a newer SQLite than some systems have
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
except ImportError:
    pass

from dbos import DBOS

STEPS, FOLDER = int(sys.argv[1]), sys.argv[2]
DBOS(
    config={
        "name": "bench",
        "system_database_url": f"sqlite:///{FOLDER}/dbos.sqlite",
        "run_admin_server": False,
    }
)


@DBOS.step()
def nothing() -> None:
    return None


@DBOS.workflow()
def sequence(steps: int) -> None:
    for _ in range(steps):
        nothing()


DBOS.launch()
sequence(1)
began = time.perf_counter()
sequence(STEPS)
print(time.perf_counter() - began)
DBOS.destroy()
