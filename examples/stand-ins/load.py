"""Stands in for loading a file into a database."""

import sys
from pathlib import Path

print(f"loaded {len(Path(sys.argv[1]).read_bytes())} bytes")
