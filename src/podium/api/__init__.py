"""Podium as a library: the use cases of `operations` for Python programs.

    import podium
    result = podium.run("flow.yaml", inputs={"city": "Oslo"})

    async with podium.open("runs/podium.db") as p:
        run = await p.start(podium.Workflow.load("flow.yaml"), run_id="nightly-1")
        result = await run.wait()

A run that fails is a result. An invalid workflow or input, a run that another process drives and a store that does not
answer raise the `PodiumError` whose code the command line prints. Nothing here is shared between two calls of `open`.
"""

from podium.api.opening import open, resume, resume_async, run, run_async  # noqa: A004 - called `podium.open`
from podium.api.podium import Podium
from podium.api.runs import AcceptedSignal, Run
from podium.api.workflows import Workflow

__all__ = [
    "AcceptedSignal",
    "Podium",
    "Run",
    "Workflow",
    "open",
    "resume",
    "resume_async",
    "run",
    "run_async",
]
