"""Tests of the till. What they print is the same on every machine: no paths, no times."""

import sys

import till

CASES = [
    ("total([100, 250, 50])", till.total([100, 250, 50]), 400),
    ("total([])", till.total([]), 0),
    ("discounted(1000, 10)", till.discounted(1000, 10), 900),
]

wrong = [(call, is_, wanted) for call, is_, wanted in CASES if is_ != wanted]
for call, is_, wanted in wrong:
    print(f"till.{call} is {is_}, and should be {wanted}")
print(f"{len(CASES) - len(wrong)} of {len(CASES)} tests pass")
sys.exit(1 if wrong else 0)
