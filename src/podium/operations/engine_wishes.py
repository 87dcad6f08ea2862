"""Changes that operators make on the page of another engine are sent as signals."""

import logging
from typing import Final

from podium.errors import PodiumError, StoreUnavailable
from podium.log.runs import Run
from podium.operations.parts import Parts
from podium.operations.signal_decisions import SignalDuplicate
from podium.operations.signals import request_signal
from podium.ports.engine import SignalRequest
from podium.ports.log_fields import about

_LOG: Final = logging.getLogger(__name__)


async def send_wish(parts: Parts, run: Run, signal_type: str, signal_id: str, reason: str) -> bool:
    """Checked and audited like every signal; repeated calls with the same id are one signal. False: it was
    refused, which is logged.

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
        fields = about(run=run_id, tenant=tenant_id)
        _LOG.warning("run %s was %s, which has no effect: %s", run_id, reason, error, extra=fields)
        return False
    return True
