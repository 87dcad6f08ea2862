"""What is shown of an error of which nothing is known: the text of one that Podium did not raise may quote values."""

import traceback
from pathlib import Path

from podium.errors import PodiumError
from podium.text import without_credentials


def describe_without_values(error: Exception) -> str:
    if isinstance(error, PodiumError):
        return f"{error.code}: {without_credentials(str(error))}"
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" in {Path(one.filename).name}, line {one.lineno}" for one in place)
    return f"INTERNAL_ERROR: {type(error).__name__}{where}"
