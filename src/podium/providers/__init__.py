"""Providers of agent steps: real agent programs, model servers, and programs that a workflow describes
itself.

Each module handles one of them and keeps its terms to itself. `registry.py` finds a provider by its name.
"""
