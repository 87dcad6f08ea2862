"""How long a busy machine keeps processes waiting. Tests that measure time add it to what an idle machine needs."""

import threading
import time
from typing import Final

_PAUSE: Final = 0.01


class Delays:
    """Sums up by how much short pauses are longer than they should be, while the block runs."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def __enter__(self) -> "Delays":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _measure(self) -> None:
        while not self._is_over.is_set():
            began = time.monotonic()
            time.sleep(_PAUSE)
            self.seconds += time.monotonic() - began - _PAUSE
