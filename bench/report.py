"""What a benchmark prints: figures, and goals that were met or missed.

A goal either decides (a ratio, or something a busy machine does not change) or informs (a number of seconds
that only an idle machine can be held to). Only a missed goal that decides fails the run.
"""

import os
import platform


class Report:
    def __init__(self) -> None:
        self.missed: list[str] = []
        self._section = ""

    def machine(self) -> None:
        print(f"{os.cpu_count()} cores, {platform.machine()}, {platform.python_implementation()} ", end="")
        print(f"{platform.python_version()}, load {os.getloadavg()[0]:.1f} before the first measurement")

    def section(self, title: str) -> None:
        self._section = title
        print(f"\n{title}")

    def figure(self, name: str, text: str) -> None:
        print(f"  {name:<44} {text:>12}")

    def goal(
        self,
        name: str,
        value: float,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        unit: str = "x",
        decides: bool = True,
    ) -> None:
        if at_most is not None:
            met, wanted = value <= at_most, f"at most {at_most:g} {unit}"
        elif at_least is not None:
            met, wanted = value >= at_least, f"at least {at_least:g} {unit}"
        else:
            raise ValueError("a goal needs a limit")
        verdict = "met" if met else "MISSED"
        if not decides:
            verdict += ", for an idle machine only"
        print(f"  {name:<44} {f'{value:.2f} {unit}':>12}   goal: {wanted:<18} {verdict}")
        if decides and not met:
            self.missed.append(f"{self._section}: {name} is {value:.2f} {unit}, goal {wanted}")


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us"
