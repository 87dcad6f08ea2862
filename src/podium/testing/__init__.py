"""Published for tests with Podium: clocks that can be moved, faults, and the promises of every port.

Needs pytest (`podium[dev]`); nothing outside tests imports it.
"""
