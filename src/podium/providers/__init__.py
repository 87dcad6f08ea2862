"""Who answers agent steps: real agent programs, model servers, and programs that a workflow describes itself.

Each module knows one of them and keeps its words to itself. `registry.py` finds a provider by its name.
"""
