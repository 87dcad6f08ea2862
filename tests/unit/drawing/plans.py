"""Plans to draw: written as files, because that is what people draw."""

from podium.drawing import shown
from podium.drawing.picture import Picture, picture_of
from podium.language.workflow import read_workflow
from podium.plan.plan import Plan

EVERY_KIND = """
version: "2.0"
name: Every kind
steps:
  - name: Gate
    when: {expr: "1 < 2"}
    on: {success: {goto: Loop}, failure: {error: "no & never"}}
  - name: Loop
    while:
      condition: {not: {step_ok: Ask}}
      max_iterations: 3
      steps:
        - {name: Ask, http: {url: "https://example.com/"}}
        - name: Inner
          for_each:
            items: [1, 2]
            steps:
              - name: Leave
                command: [true]
                on: {success: {goto: _loop_break}, failure: {goto: After}, timeout: {goto: Loop}}
              - {name: Never mind, command: [true]}
    on: {success: {goto: Branches}, failure: {goto: Gate}, timeout: {end: true}}
  - name: Branches
    parallel:
      - {name: Left, command: [true]}
      - name: Right
        steps:
          - {name: One, command: [true]}
          - {name: Two, depends_on: [One], prompt: Hi, provider: echo}
  - {name: After, set: {x: 1}, when: {step_ok: Branches}, allow_failure: true}
  - {name: Ask a person, approval: "Go on?", on: {success: {end: true}, failure: {goto: _error}}}
  - {name: _error, command: [echo, sorry]}
finally:
  - {name: Clean up, command: [rm, -rf, tmp]}
"""


def plan_of(text: str) -> Plan:
    reading = read_workflow(text.encode(), "test.yaml")
    assert reading.plan is not None, reading.diagnostics
    return reading.plan


def picture(text: str) -> Picture:
    return shown(picture_of(plan_of(text)))


def flow(*steps: str, head: str = "") -> str:
    return f'version: "2.0"\nname: Test\n{head}\nsteps:\n' + "".join(f"  - {step}\n" for step in steps)


def chain(length: int) -> str:
    return flow(*(f"{{name: s{number}, command: [echo]}}" for number in range(length)))


def branches(count: int) -> str:
    inner = ", ".join(f"{{name: s{number}, command: [echo]}}" for number in range(count))
    return flow(f"{{name: All, parallel: [{inner}]}}")


def dense_graph(count: int) -> str:
    """Each waits for three others, near and far."""
    steps = []
    for number in range(count):
        needed = sorted({number // 2, number * 2 // 3, number - 1} - {number, -1})
        steps.append(
            f"{{name: s{number}, command: [echo], depends_on: [{', '.join(f's{other}' for other in needed)}]}}"
        )
    return flow(*steps)


def jumps(count: int) -> str:
    """Forwards and backwards across the whole list."""
    steps = [
        f"{{name: s{number}, command: [echo], on: {{success: {{goto: s{min(number + 1, count - 1)}}}, "
        f"failure: {{goto: s{number * 7 % count}}}}}}}"
        for number in range(count)
    ]
    return flow(*steps)
