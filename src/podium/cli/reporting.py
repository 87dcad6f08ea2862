"""Problems of files in the forms that other programs read: JSON, GitHub's annotations, SARIF."""

from collections.abc import Sequence
from typing import Any

import podium
from podium.language.codes import Code
from podium.language.diagnostics import Diagnostic, Severity

FORMATS = ("text", "json", "github", "sarif")


def github(found: Diagnostic) -> str:
    """A workflow command of GitHub Actions: the problem appears at its line in the pull request."""
    message = f"{found.code} {found.message} {found.hint}".strip()
    place = f"file={_property(found.file)},line={found.line},col={found.column},endColumn={found.end_column}"
    return f"::{found.severity.value} {place},title={found.code}::{_data(message)}"


def annotation(severity: str, title: str, message: str) -> str:
    """Refers to a run, not to a line of a file."""
    return f"::{severity} title={_property(title)}::{_data(message)}"


def sarif(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """SARIF 2.1.0, which code scanners and editors read."""
    used = sorted({found.code for found in diagnostics})
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "podium",
                        "version": podium.__version__,
                        "rules": [_rule(code) for code in used],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(found) for found in diagnostics],
            }
        ],
    }


def _rule(code: Code) -> dict[str, Any]:
    return {"id": code.value, "name": code.name.replace("_", " ").title().replace(" ", "")}


def _result(found: Diagnostic) -> dict[str, Any]:
    return {
        "ruleId": found.code.value,
        "level": "error" if found.severity is Severity.ERROR else "warning",
        "message": {"text": f"{found.message} {found.hint}".strip()},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": found.file},
                    "region": {
                        "startLine": found.line,
                        "startColumn": found.column,
                        "endColumn": found.end_column,
                    },
                }
            }
        ],
    }


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
