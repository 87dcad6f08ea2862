"""Whoever validates a file waits for nothing that is not needed for it."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent / "spec"


@pytest.mark.parametrize("command", [["validate"], ["plan"], ["plan", "--json"]], ids=" ".join)
def test_neither_validate_nor_plan_imports_pydantic(command: list[str]) -> None:
    path = str(min(EXAMPLE.glob("*.yaml")))
    program = (
        "import sys\n"
        "from podium.cli import main\n"
        f"sys.argv = {['podium', *command, path]!r}\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as ended:\n"
        "    code = ended.code\n"
        "heavy = {'pydantic', 'pydantic_core', 'asyncio', 'apsw', 'rich', 'podium.language.result_schemas'}\n"
        "heavy &= set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr.splitlines()[-1] == "[]"
