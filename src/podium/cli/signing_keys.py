"""Private keys named on the command line, and signatures made with them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from podium.access.signatures import PlanSignature
from podium.cli.paths import GivenPath
from podium.files import FileNotUsable, read_regular
from podium.log.plan_refs import PlanRef
from podium.log.times import Timestamp, timestamp
from podium.text import visible
from podium.wiring.stores import system_clock

if TYPE_CHECKING:
    from podium.runtime.ed25519 import SigningKey

_MAX_KEY_BYTES: Final = 64 << 10


def key_options(command: Callable[..., int]) -> Callable[..., int]:
    """Options for signing a plan."""
    options = (
        click.option(
            "--key", type=GivenPath(dir_okay=False), metavar="FILE", help="The private key, PKCS#8 PEM."
        ),
        click.option(
            "--key-id",
            metavar="ID",
            help="The key's name in `access.keys`. [default: the name of its file, without its ending]",
        ),
        click.option(
            "--expires", metavar="DATE", help="The signature is not valid from then on, like 2027-01-01."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


class GivenKey(NamedTuple):
    key: "SigningKey"
    key_id: str
    expires: Timestamp | None

    def sign(self, plan: PlanRef, earlier: Sequence[PlanSignature] = ()) -> list[PlanSignature]:
        """The signature of this key, after earlier ones."""
        from podium.operations.signing import sign_plan

        return sign_plan(plan, self.key, self.key_id, now=now(), expires=self.expires, earlier=earlier)


def read_key(file: Path, key_id: str | None, expires: str | None) -> GivenKey:
    """Raises `InvalidSigningKey`, `InvalidInput`."""
    from podium.operations.signing import parse_expiry
    from podium.runtime.ed25519 import InvalidSigningKey, load_key

    until = parse_expiry(expires, now()) if expires is not None else None
    try:
        content = read_regular(file, max_bytes=_MAX_KEY_BYTES, what="a private key", private=True)
    except FileNotUsable as error:
        raise InvalidSigningKey(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"cannot read '{visible(str(file))}': {error.strerror}.") from error
    return GivenKey(load_key(content, str(file)), key_id or file.stem, until)


def now() -> Timestamp:
    return timestamp(system_clock().now())
