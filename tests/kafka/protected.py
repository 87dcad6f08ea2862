"""A broker that knows its users: listeners with TLS and SASL, and rights that are given one by one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from services import kafka
from services.kafka import KafkaServer

USER: Final = "clerk"
PASSWORD: Final = "s3cretoftheclerk"
PLAIN_PASSWORD: Final = "s3cretinplain"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_PLAIN: Final = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PLAIN_PASSWORD}";'
)


class Certificate(NamedTuple):
    """PEM texts."""

    certificate: str
    key: str


def self_signed(name: str) -> Certificate:
    """Of 127.0.0.1; who trusts it trusts what it signs."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(built.public_bytes(serialization.Encoding.PEM).decode(), private.decode())


class Protected:
    """Its plain listener is for tests and may do everything; `address` names the others.

    TLS      any user, encrypted, with a client certificate
    LOGIN    a user with a password (SCRAM or PLAIN)
    BOTH     the same, encrypted
    """

    def __init__(self, folder: Path) -> None:
        self.own, self.client = self_signed("broker"), self_signed("client")
        shown, trusted = folder / "broker.pem", folder / "trusted.pem"
        shown.write_text(self.own.key + self.own.certificate)
        trusted.write_text(self.client.certificate)
        self.server: KafkaServer = kafka.start(
            listeners={"TLS": "SSL", "LOGIN": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"},
            settings={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:CN=client",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
                **_logins("login"),
                **_logins("both"),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(shown),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(trusted),
                "listener.name.tls.ssl.client.auth": "required",
            },
        )
        self._admin = AdminClient({"bootstrap.servers": self.server.address, "log_level": 0})
        self._add_user()

    def _add_user(self) -> None:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            new = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 8192), PASSWORD.encode())
            for answer in self._admin.alter_user_scram_credentials([new], request_timeout=60).values():
                answer.result()

    def address(self, listener: str) -> str:
        scheme = "kafka" if listener == "LOGIN" else "kafka+tls"
        return f"{scheme}://{self.server.listeners[listener]}"

    def allow(self, kind: str, name: str, *operations: str) -> None:
        bindings: Sequence[AclBinding] = [
            AclBinding(
                ResourceType[kind],
                name,
                ResourcePatternType.LITERAL,
                f"User:{USER}",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]
        for answer in self._admin.create_acls(list(bindings), request_timeout=60).values():
            answer.result()


def _logins(listener: str) -> dict[str, str]:
    return {
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": module
        for mechanism, module in (("scram-sha-512", _SCRAM), ("scram-sha-256", _SCRAM), ("plain", _PLAIN))
    }
