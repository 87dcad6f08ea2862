"""Translates files of other tools to workflows, with a list of what cannot be translated."""
