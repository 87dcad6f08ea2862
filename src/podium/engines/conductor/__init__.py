"""Podium on Conductor: a run is one execution with one task, which a worker keeps while it decides.

    connection   where the server is                             names     of definitions, domains and signals
    client       the calls of its REST interface                 answers   its responses, as types
    definitions  task and workflow definitions, and their version
    transport    HTTP, and messages about its failures           workers   does one serve a task domain?
    worker       polls, slots, and how it ends                   polling   asking for work
    keeping      the runs that a worker decides about            kept_run  one of them, while its task is kept
    run_lease    ownership of a run, also while it waits         deciding  the loop around the follower
    handed_out   attempts of a run on other workers              stepping  an attempt that was handed out
    mirroring    what Conductor's page shows                     reconciling  waiting runs, and what was lost
    executions   of runs and of attempts                         engine    `podium run --engine conductor`

The log stays in Podium's store. Conductor holds one execution per run, queues and timeouts, and what its own
page shows.
"""

from typing import Final

# Options of every command that drives runs, including the local engine: so they are here, and not in
# `connection.py`.
DEFAULT_URL: Final = "http://127.0.0.1:8080"
DEFAULT_QUEUE: Final = "podium"
