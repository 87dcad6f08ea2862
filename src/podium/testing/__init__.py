"""Published for everybody who tests with Podium: clocks that are moved, faults, and the promises of every port.

Needs pytest (`podium[dev]`); nothing outside tests imports it.
"""
