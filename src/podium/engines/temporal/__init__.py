"""Podium on Temporal: a run is a workflow execution, and its attempts are activities of workers.

    messages    between workflow and activities                   names      workflow type, task queues, workflow ids
    workflow    hosts the follower; decides, and performs nothing activities what workers do for it
    converter   large payloads stay out of Temporal's histories   client     connect, start, look at executions
    worker      serves a task queue                               engine     `podium run --engine temporal`
    sandbox     where workflows run                               opening    what an execution starts with

The log stays in Podium's store. The process that does something appends it there, and the workflow folds the
log: Temporal holds the assignment of work, timers, and which worker has died.
"""

from typing import Final

# Options of every command that drives runs, including the local engine: so they are here, and not in
# `connection.py`.
DEFAULT_ADDRESS: Final = "127.0.0.1:7233"
DEFAULT_NAMESPACE: Final = "default"
DEFAULT_QUEUE: Final = "podium"
