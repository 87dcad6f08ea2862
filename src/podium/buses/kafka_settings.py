"""The connection to a Kafka cluster: its address, and credentials from the secrets. No message or `repr`
shows them.

kafka://host:port[,host:port]       without encryption
kafka+tls://host:port[,host:port]   with TLS
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from podium.log.messages import TOPIC_EXPECTED, is_topic
from podium.patterns import lazy_pattern
from podium.ports.bus import BusRefused
from podium.runtime.extras import ExtraMissing, has_extra, install_hint
from podium.text import shortened

SCHEMES: Final = {"kafka": False, "kafka+tls": True}
USERNAME: Final = "PODIUM_KAFKA_USERNAME"
PASSWORD: Final = "PODIUM_KAFKA_PASSWORD"
MECHANISM: Final = "PODIUM_KAFKA_SASL"
# PEM texts: trusted authorities, and our own certificate and key.
_CERTIFICATES: Final = {
    "PODIUM_KAFKA_CA": "ssl.ca.pem",
    "PODIUM_KAFKA_CERTIFICATE": "ssl.certificate.pem",
    "PODIUM_KAFKA_KEY": "ssl.key.pem",
}
# Without the client's own message, which may quote a setting.
UNUSABLE_SETTINGS: Final = "the settings of the connection cannot be used; check the secrets PODIUM_KAFKA_*"
_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_SERVER: Final = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]{1,5}"
_SERVERS: Final = lazy_pattern(rf"{_SERVER}(?:,{_SERVER})*")


class KafkaAddress(msgspec.Struct, frozen=True):
    servers: str
    is_encrypted: bool = False
    topic: str | None = None

    @property
    def name(self) -> str:
        """With everything that distinguishes two buses."""
        scheme = "kafka+tls" if self.is_encrypted else "kafka"
        return f"{scheme}://{self.servers}" + (f"/{self.topic}" if self.topic is not None else "")


def parse_address(text: str, topic: str | None = None) -> KafkaAddress:
    """Raises ValueError, with what is wrong; the text itself may contain credentials and is not quoted."""
    scheme, _, servers = text.partition("://")
    if "@" in servers:
        raise ValueError(f"write no credentials into it; {USERNAME} and {PASSWORD} are looked up as secrets")
    if scheme not in SCHEMES or not _SERVERS.fullmatch(servers):
        raise ValueError("use jsonl:FILE, jsonl:FOLDER/, kafka://HOST:PORT or kafka+tls://HOST:PORT")
    if topic is not None and not is_topic(topic):
        raise ValueError(f"{shortened(topic, 80)!r} is not {TOPIC_EXPECTED}")
    return KafkaAddress(servers, SCHEMES[scheme], topic)


class KafkaConnection:
    """The address of the cluster and the credentials. Deliberately not a mapping, so that no encoder accepts
    it.
    """

    def __init__(self, address: KafkaAddress, secrets: Mapping[str, str]) -> None:
        """Raises `ExtraMissing`, `BusRefused`, and what looking up a secret raises."""
        if not has_extra("kafka"):
            raise ExtraMissing(f"the bus {address.name}: {install_hint('kafka')}")
        self.address = address
        self._credentials = {**_sasl(address, secrets), **_certificates(address, secrets)}

    def settings(self, **more: Any) -> dict[str, Any]:
        """For a client of librdkafka."""
        return {"bootstrap.servers": self.address.servers, **self._credentials, **more}

    def __repr__(self) -> str:
        return f"KafkaConnection({self.address.name})"


def _sasl(address: KafkaAddress, secrets: Mapping[str, str]) -> dict[str, str]:
    username = secrets.get(USERNAME)
    if not username:
        return {"security.protocol": "SSL" if address.is_encrypted else "PLAINTEXT"}
    mechanism = secrets.get(MECHANISM) or _MECHANISMS[0]
    if mechanism not in _MECHANISMS:
        raise BusRefused(f"{MECHANISM} is none of {', '.join(_MECHANISMS)}; set it to one of them")
    password = secrets.get(PASSWORD)
    if not password:
        raise BusRefused(f"{USERNAME} is set and {PASSWORD} is not; set both or none")
    return {
        "security.protocol": "SASL_SSL" if address.is_encrypted else "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": username,
        "sasl.password": password,
    }


def _certificates(address: KafkaAddress, secrets: Mapping[str, str]) -> dict[str, str]:
    if not address.is_encrypted:
        return {}
    found = {setting: secrets.get(name) for name, setting in _CERTIFICATES.items()}
    return {setting: value for setting, value in found.items() if value}
