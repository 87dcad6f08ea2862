"""The registration orchestrator: nodes are registered in a service catalog and a table, and their life is followed.

`contract.yaml` is the workflow, `fsm.py` the life of a registration, `reducer.py` every decision. Start with README.md.
"""
