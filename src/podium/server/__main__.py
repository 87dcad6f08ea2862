"""`python -m podium.server`: one process that answers the API. `podium up` starts it and keeps it running.

The store is named by PODIUM_STORE, where runs are by PODIUM_RUNS.
"""

import argparse
import asyncio
import gc
import sys
from pathlib import Path
from typing import Final

from podium.environment import hide_environment
from podium.errors import PodiumError
from podium.runtime.listening import Listening
from podium.telemetry.log_lines import FORMATS, LEVELS, configure_logs
from podium.text import without_credentials

MISCONFIGURED: Final = 78
UNAVAILABLE: Final = 69


def main() -> int:
    options = _parser().parse_args()
    # A step of the worker beside it could read the address of the store there.
    hide_environment()
    configure_logs(options.log_format, options.log_level)
    listening = Listening(options.host, options.port, options.tls_cert, options.tls_key, options.behind_proxy)
    # What is imported lives as long as the process: it is never looked through for garbage.
    gc.disable()
    from podium.server.serving import serve

    gc.freeze()
    gc.enable()
    try:
        asyncio.run(serve(listening, options.traces))
    except PodiumError as error:
        print(f"{error.code}: {without_credentials(str(error))}", file=sys.stderr)
        return UNAVAILABLE if error.code == "STORE_UNAVAILABLE" else MISCONFIGURED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m podium.server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8600)
    parser.add_argument("--tls-cert", type=Path)
    parser.add_argument("--tls-key", type=Path)
    parser.add_argument("--behind-proxy", action="store_true")
    parser.add_argument("--traces")
    parser.add_argument("--log-format", choices=FORMATS, help="default: text at a terminal, else json")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="default: %(default)s")
    return parser


if __name__ == "__main__":
    sys.exit(main())
