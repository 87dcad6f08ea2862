"""The JSON Schema of contract files, for editors. Generated from the models, never the other way."""

from typing import Any

from podium.nodes.contract import ContractFile
from podium.nodes.definition import SEMVER_TEXT
from podium.nodes.run_settings import RunRules, StepNode


def contract_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) for contract files."""
    schema = ContractFile.model_json_schema()
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Podium node contract",
    }
    # Fields that only runs read, added to those of the specification.
    schema["$defs"]["ModelCoordinationRules"]["properties"] |= RunRules.model_json_schema()["properties"]
    schema["$defs"]["StepNode"] = StepNode.model_json_schema()
    steps = schema["properties"]["steps"]
    steps["items"] = {"allOf": [steps["items"], {"$ref": "#/$defs/StepNode"}]}
    version = schema["$defs"]["ModelSemVer"]
    schema["$defs"]["ModelSemVer"] = {
        "title": version.pop("title"),
        "description": version.pop("description"),
        "anyOf": [{"type": "string", "pattern": f"^{SEMVER_TEXT}$"}, version],
    }
    step = schema["$defs"]["ModelWorkflowStep"]["properties"]
    # In a file a step may also be identified by a name; the reader replaces names by UUIDs.
    for text in (step["step_id"], step["depends_on"]["items"]):
        del text["format"]
    return schema
