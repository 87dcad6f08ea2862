"""Stands in for a validation: every line of a CSV file has as many fields as the first."""

import csv
import sys
from pathlib import Path

with Path(sys.argv[1]).open(newline="") as opened:
    rows = list(csv.reader(opened))
uneven = [number for number, row in enumerate(rows, start=1) if len(row) != len(rows[0])]
if uneven:
    sys.exit(f"{sys.argv[1]}: lines {uneven} have another number of fields than the first")
print(f"{sys.argv[1]}: {len(rows) - 1} rows are well formed")
