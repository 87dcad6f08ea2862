"""Receivers of webhooks, as configured."""

from typing import TYPE_CHECKING

from podium.configuration import configuration
from podium.runtime.extras import ExtraMissing, install_hint

if TYPE_CHECKING:
    from podium.ports.receivers import Receivers


def web_receivers() -> "Receivers":
    """Raises `ExtraMissing`."""
    from podium.configuration.webhooks import WebhookSettings

    try:
        from podium.runtime.receivers import WebReceivers
    except ImportError as error:
        raise ExtraMissing(f"webhooks: {install_hint('http')}") from error
    settings = configuration().webhooks or WebhookSettings()
    return WebReceivers(allow_loopback=settings.allow_loopback)
