"""Ed25519 with the library `cryptography`, imported by the first command that signs or checks a signature."""

from typing import TYPE_CHECKING, Final

from podium.errors import PodiumError
from podium.runtime.extras import ExtraMissing, install_hint
from podium.text import shortened

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_RIGHT: Final = "use an ed25519 key in PKCS#8 PEM, as `podium sign --new-key FILE` makes it"


class InvalidSigningKey(PodiumError):
    """A file that is not a private key for signatures, or that other users can read."""

    code = "SIGNING_KEY_INVALID"


class SigningKey:
    """The private key cannot be read from it."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key
        self.public: Final = key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def verify(public: bytes, signature: bytes, message: bytes) -> bool:
    """Raises `ExtraMissing`."""
    require_library()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def load_key(content: bytes, name: str) -> SigningKey:
    """The private key in a PEM file. Raises `InvalidSigningKey`."""
    require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    shown = repr(shortened(name, 200))
    if b"BEGIN OPENSSH PRIVATE KEY" in content:
        raise InvalidSigningKey(f"{shown} is a key of OpenSSH; {_RIGHT}")
    try:
        key = load_pem_private_key(content, None)
    except TypeError as error:
        raise InvalidSigningKey(
            f"{shown} is encrypted, and Podium asks for no passphrase; write it without one, readable by you alone, "
            "with `openssl pkey -in FILE -out NEW`"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidSigningKey(f"{shown} is not a private key; {_RIGHT}") from error
    if not isinstance(key, Ed25519PrivateKey):
        kind = type(key).__name__.removesuffix("PrivateKey").strip("_")
        raise InvalidSigningKey(f"{shown} is a key of another kind ({kind}); {_RIGHT}")
    return SigningKey(key)


def new_key() -> tuple[SigningKey, bytes]:
    """A new private key, and the PEM to store it."""
    require_library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    return SigningKey(key), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def require_library() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise ExtraMissing(f"signatures of plans: {install_hint('signing')}") from error
