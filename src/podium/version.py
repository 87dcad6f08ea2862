"""The release of Podium. A literal, because reading the installed package's metadata takes 26 ms at every
start.
"""

__version__ = "0.1.0"
