"""The registration orchestrator: nodes are registered in a service catalog and a table, and their lifecycle
is tracked.

`contract.yaml` is the workflow, `fsm.py` the lifecycle of a registration, `reducer.py` every decision. Start
with README.md.
"""
