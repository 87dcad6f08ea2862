"""The part of a contract that tests about its steps do not care about."""

DEFINITION = """\
workflow_coordination:
  workflow_definition:
    version: 1.0.0
    workflow_metadata:
      version: 1.0.0
      workflow_name: release
      workflow_version: 1.0.0
      description: Build, test and publish
    execution_graph:
      version: 1.0.0
"""
