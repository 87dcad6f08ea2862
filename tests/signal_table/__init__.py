"""Every signal, by every role, to a run in every state, of one's own tenant and of another: what is decided, and why.

    expected   the table: what has to come of every cell, written down apart from the code that decides it
    cells      the cells of the table, and those with two faults at the same time
    runs       how a run is brought into a state, and how it continues from there
    trying     sends the signal of a cell and compares decision, log, audit record and effect with the table
    page       the part of docs/signals.md that is made of the table

The same table is tried on the local engine (tests/acceptance) and on Temporal (tests/temporal).
"""
