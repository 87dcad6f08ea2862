"""Every cell of the table of signals on a server: the same decisions, records and effects as on the local engine."""

import ast
import subprocess
import sys
import threading

from tests.engines.site import ROOT, Site, WorkerProcess
from tests.signal_table.cells import all_cells
from tests.signal_table.on_server import START, STOP

MAX_SECONDS = 900


def try_on_server(site: Site) -> None:
    """The whole table, with a worker of its own."""
    places = [site.store, str(site.runs), str(site.workspace), *site.place]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.signal_table.on_server", *places],
        cwd=ROOT,
        env=site.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        limit = threading.Timer(MAX_SECONDS, program.kill)
        limit.start()
        try:
            report = _serve(site, program)
        finally:
            limit.cancel()
            program.kill()
    assert report == str(len(all_cells())), _readable(report)


def _serve(site: Site, program: "subprocess.Popen[str]") -> str:
    """Start and stop the worker when the program asks for it; returns its last line."""
    assert program.stdin is not None
    assert program.stdout is not None
    worker: WorkerProcess = site.start_worker()
    report = ""
    for line in program.stdout:
        report = line.strip()
        if report == STOP:
            worker.kill9()
        elif report == START:
            worker = site.start_worker()
        else:
            continue
        program.stdin.write("\n")
        program.stdin.flush()
    return report


def _readable(report: str) -> str:
    return str(ast.literal_eval(report)) if report.startswith(("'", '"')) else report
