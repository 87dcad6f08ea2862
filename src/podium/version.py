"""The release of Podium. A literal: asking the installed package's metadata for it costs 26 ms at every start."""

__version__ = "0.1.0"
