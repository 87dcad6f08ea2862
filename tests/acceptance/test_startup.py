"""Whoever runs a workflow waits for nothing that is not needed for it."""

import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

WORKFLOW = 'version: "2.0"\nname: w\nsteps: [{name: a, command: ["false"]}]\n'


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """The modules that are there when the command has ended."""
    program = (
        "import sys\n"
        "from podium.cli import main\n"
        f"sys.argv = {['podium', *arguments]!r}\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    return set(ended.stderr.splitlines()[-1].split())


def test_neither_run_nor_resume_imports_what_only_others_need(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    for arguments in (("run", "w.yaml", "--run-id", "r"), ("resume", "r")):
        loaded = loaded_by(tmp_path, *arguments)
        assert "podium.engines.local" in loaded
        assert loaded.isdisjoint({"pydantic", "pydantic_core", "rich", "psycopg", "httpx2", "obstore"})
        assert loaded.isdisjoint({"re2", "jsonschema_rs"})
        assert loaded.isdisjoint({"shutil", "tempfile", "zipfile", "importlib.resources"})
        assert loaded.isdisjoint({"podium.ports.provider", "podium.runtime.tasks.agents"})
        assert not any(name.startswith("podium.providers") for name in loaded)


def test_a_run_that_goes_well_imports_nothing_for_signals_takeovers_and_hints(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW.replace("false", "true"))
    loaded = loaded_by(tmp_path, "run", "w.yaml")
    assert "podium.engines.local" in loaded
    assert loaded.isdisjoint({"hmac", "secrets", "random", "shlex", "pwd"})
    assert loaded.isdisjoint({"podium.operations.explaining", "podium.operations.signals"})
    assert loaded.isdisjoint({"podium.runtime.takeover", "podium.runtime.restoring", "podium.cli.following"})


# What a run of commands that go well has no use for, and what needs it.
SELDOM = {
    "--env-file": {"podium.operations.env_files", "podium.secrets.dotenv", "hmac"},
    "a concurrency key": {"podium.runtime.slots", "podium.runtime.signalling"},
    "a pause that is not drained": {"podium.runtime.alerts", "podium.log.alerts", "podium.ports.bus"},
    "a rerun": {"podium.runtime.beside"},
    "Temporal": {"podium.engines.temporal.connection"},
    "a resumed run": {
        "podium.cli.resuming",
        "podium.operations.resume",
        "podium.operations.driving",
        "podium.operations.pausing",
    },
    "a JSON Schema": {"podium.expressions.json_schema", "podium.expressions.schema_places"},
    "a worker of another engine": {"podium.stores.sqlite.attempts"},
    "a Python step": {"podium.runtime.tasks.python", "podium.runtime.tasks.workers"},
    "lists and upkeep of the store": {"podium.stores.sqlite.tenants", "podium.stores.sqlite.maintenance"},
    "a misspelled word": {"difflib"},
    "values that are parsed from text, secrets, fractions": {"json"},
    "an optional package": {"importlib.util"},
    "a configured secret": {"podium.secrets.sources", "podium.secrets.command"},
}


def test_a_run_of_commands_imports_nothing_that_its_workflow_does_not_use(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW.replace("false", "true"))
    loaded = loaded_by(tmp_path, "run", "w.yaml")
    needless = {need: found for need, modules in SELDOM.items() if (found := loaded & modules)}
    assert needless == {}


def test_a_run_defines_no_dataclass(tmp_path: Path) -> None:
    """Each takes half a millisecond at every start; a struct takes next to nothing."""
    assert [name for name, source in sources_of_a_run(tmp_path) if "@dataclass" in source] == []


def test_a_run_defines_a_named_tuple_only_for_what_is_used_as_a_tuple(tmp_path: Path) -> None:
    """Each takes a seventh of a millisecond at every start, five times as long as a struct."""
    defining = {name for name, source in sources_of_a_run(tmp_path) if "(NamedTuple" in source}
    assert defining == {"podium.machine.accounts", "podium.ports.logs", "podium.ports.store"}


def test_a_run_compiles_no_pattern_when_a_module_is_imported(tmp_path: Path) -> None:
    """All of them together take four milliseconds; `lazy_pattern` compiles those that are used."""
    compiling = re.compile(r"^\w+(: Final)? = re\.compile\(", re.MULTILINE)
    assert [name for name, source in sources_of_a_run(tmp_path) if compiling.search(source)] == []


INTERRUPTED_BY_AN_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "podium.cli.app":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from podium.cli import main
sys.argv = ["podium", "runs", "list"]
main()
"""


def test_ctrl_c_while_modules_are_imported_prints_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_BY_AN_IMPORT], cwd=tmp_path, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_where_ctrl_c_is_ignored_it_stays_ignored_while_modules_are_imported(tmp_path: Path) -> None:
    ignored = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + INTERRUPTED_BY_AN_IMPORT
    ended = subprocess.run([sys.executable, "-c", ignored], cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.startswith("UNKNOWN_STORE: ")) == (64, True)


def sources_of_a_run(folder: Path) -> list[tuple[str, str]]:
    """Name and text of each of our modules that is there when a run has ended."""
    (folder / "w.yaml").write_text(WORKFLOW.replace("false", "true"))
    loaded = loaded_by(folder, "run", "w.yaml")
    return [(name, _source_of(name)) for name in loaded if name.startswith("podium.")]


def _source_of(module: str) -> str:
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_text()


def test_a_server_starts_without_what_only_some_answers_need() -> None:
    program = "import sys, podium.server.serving; print(*sys.modules)"
    listed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    loaded = set(listed.split())
    assert "podium.server.app" in loaded
    assert loaded.isdisjoint(
        {"joserfc", "prometheus_client", "opentelemetry", "obstore", "psycopg", "httpx2"}
    )
    assert loaded.isdisjoint({"podium.drawing", "podium.language.grammar", "podium.operations.html_report"})
    assert loaded.isdisjoint({"pydantic", "cronsim", "re2", "jsonschema_rs"})
