"""What operators change on the page of another engine: their wishes, sent as signals."""

import logging
from typing import Final

from podium.errors import PodiumError, StoreUnavailable
from podium.log.runs import Run
from podium.operations.parts import Parts
from podium.operations.signal_decisions import SignalDuplicate
from podium.operations.signals import request_signal
from podium.ports.engine import SignalRequest

_LOG: Final = logging.getLogger(__name__)


async def send_wish(parts: Parts, run: Run, signal_type: str, signal_id: str, reason: str) -> bool:
    """Checked and audited like every signal; the same id is one signal. False: it was refused, which is logged.

    Raises `StoreUnavailable`.
    """
    tenant_id, run_id = run.identity.tenant_id, run.identity.run_id
    payload = {} if signal_type == "RESUME" else {"reason": reason}
    request = SignalRequest(signal_id=signal_id, signal_type=signal_type, payload=payload)
    try:
        await request_signal(parts, tenant_id, run_id, request)
    except StoreUnavailable:
        raise
    except SignalDuplicate:
        return True  # a worker of another actor has sent it
    except PodiumError as error:
        _LOG.warning("run %s was %s, which has no effect: %s", run_id, reason, error)
        return False
    return True
