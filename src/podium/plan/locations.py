"""Where plans may be published and fetched: normalized URIs, and the list of allowed places.

A user who can name a URI makes this process fetch it, from inside its network. So a URI is parsed strictly:
what two parsers could understand differently is refused, not repaired. Then it has to be at a place that the
configuration lists. `check_address` checks the address of its host before a connection, for the very address
that is used.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final

import msgspec

from podium.errors import PodiumError
from podium.log.plan_refs import MAX_URI
from podium.plan.addresses import Address, is_public
from podium.text import shortened

_PORTS: Final = {"https": 443, "http": 80}
SCHEMES: Final = ("https", "http", "s3", "file")
_URI: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<place>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?"
)
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9!$&'()*+,./:;=@_~%?#\[\]-]+")
_PLACE: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_LIKE_A_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_ESCAPE: Final = re.compile(r"%(..?)?")
# Escaped, these would mean one thing to Podium and another to the server: / \ . % and control characters.
_NEVER_ESCAPED: Final = frozenset([*range(0x20), 0x2E, 0x2F, 0x5C, 0x25, 0x7F])
# Names under which clouds serve the credentials of a machine.
_METADATA_HOSTS: Final = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_LOCALHOST: Final = "localhost"


class PlanUriNotAllowed(PodiumError):
    """A URI from which a plan may not be fetched, or to which it may not be published."""

    code = "PLAN_URI_NOT_ALLOWED"

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"the plan URI {shortened(ascii(uri), 200)} is not allowed: {reason}")
        self.reason = reason


class Location(msgspec.Struct, frozen=True):
    """A parsed URI. `place` is the host in lower case, or the bucket; empty for a file."""

    uri: str
    scheme: str
    place: str
    port: int | None
    # Starts with `/`; escapes are not decoded.
    path: str


class AllowedPlace(msgspec.Struct, frozen=True):
    """An entry of the list: a host or a bucket, and optionally a folder there."""

    scheme: str
    place: str
    port: int | None
    # Empty for everything; otherwise starts with `/` and does not end with it.
    folder: str = ""
    # Written `*.example.com`: every host below it, but not the host itself.
    below: bool = False

    def contains(self, location: Location) -> bool:
        if (self.scheme, self.port) != (location.scheme, location.port):
            return False
        host = location.place
        is_there = host.endswith(f".{self.place}") if self.below else host == self.place
        return is_there and (not self.folder or location.path.startswith(f"{self.folder}/"))


class PlanPlaces(msgspec.Struct, frozen=True):
    """What the configuration says about plans. If empty, no plan is fetched from anywhere."""

    allow: tuple[AllowedPlace, ...] = ()
    # The folder for `file:` URIs; None: they are not allowed.
    file_root: str | None = None
    # For a laptop and for tests: hosts that are written as loopback may be called. All other rules apply.
    allow_loopback: bool = False


def locate(uri: str, places: PlanPlaces, *, redirected: bool = False) -> Location:
    """Raises `PlanUriNotAllowed`. `redirected`: the URI comes from a server and may have a query (a
    signature).
    """
    location = _parse(uri, with_query=redirected)
    if location.path in ("", "/") or location.path.endswith("/"):
        raise PlanUriNotAllowed(uri, "it names a folder; name the file of the plan")
    if location.scheme == "file":
        if places.file_root is None:
            raise PlanUriNotAllowed(
                uri, "files are read only below `plans.file_root` of the configuration file, which is not set"
            )
        return location
    if location.scheme != "s3":
        _check_host(location, places)
    if not any(place.contains(location) for place in places.allow):
        raise PlanUriNotAllowed(
            uri,
            f"`plans.allow` of the configuration file has no entry for {_place_of(location)}; "
            f"{_listed(places.allow)}",
        )
    return location


def check_redirect(before: Location, after: Location) -> None:
    if before.scheme == "https" and after.scheme != "https":
        raise PlanUriNotAllowed(
            after.uri, f"{shortened(before.uri, 200)!r} redirects to it, from https to {after.scheme}"
        )


def check_address(location: Location, address: str, places: PlanPlaces) -> None:
    """Refuse an address, to which the host of a URI was resolved, if it must not be connected to."""
    found = ip_address(address.partition("%")[0])
    if is_public(found) or (
        found.is_loopback and places.allow_loopback and _is_loopback_host(location.place)
    ):
        return
    raise PlanUriNotAllowed(location.uri, f"its host has the address {address}; {_ONLY_PUBLIC}")


def locate_receiver(url: str, *, allow_loopback: bool = False) -> Location:
    """Where a message may be sent: https, or http on this machine if that is allowed. Raises
    `PlanUriNotAllowed`.

    The rules about spelling and hosts are those of plans; a receiver needs no entry in a list. Its address is
    also checked with `check_address` before a connection.
    """
    location = _parse(url, with_query=True)
    is_here = _is_loopback_host(location.place)
    if is_here and not allow_loopback:
        raise PlanUriNotAllowed(url, f"{location.place!r} is this machine")
    if location.scheme != "https" and not (location.scheme == "http" and is_here):
        raise PlanUriNotAllowed(url, "it does not start with https://")
    _check_host(location, PlanPlaces(allow_loopback=allow_loopback))
    return location


def allowed_place(entry: str) -> AllowedPlace:
    """An entry of `plans.allow`, like `https://plans.example.com/releases` or `s3://bucket`.

    Raises `PlanUriNotAllowed` with what is wrong with it.
    """
    below = "://*." in entry
    location = _parse(entry.replace("://*.", "://", 1), with_query=False)
    if location.scheme == "file":
        raise PlanUriNotAllowed(entry, "files are allowed by `plans.file_root`")
    if below and (location.scheme == "s3" or _address_of(location.place) is not None):
        raise PlanUriNotAllowed(entry, "`*.` is followed by the name of a host")
    return AllowedPlace(location.scheme, location.place, location.port, location.path.rstrip("/"), below)


# --- spelling -------------------------------------------------------------------------------------


def _parse(uri: str, *, with_query: bool) -> Location:
    if len(uri) > MAX_URI:
        raise PlanUriNotAllowed(uri, f"it has {len(uri):,} characters; at most {MAX_URI:,} are allowed")
    if not _CHARACTERS.fullmatch(uri):
        raise PlanUriNotAllowed(uri, "it has characters that no URI has; write them as %XX")
    parts = _URI.fullmatch(uri)
    if parts is None:
        raise PlanUriNotAllowed(uri, f"it does not start with {', '.join(f'{one}://' for one in SCHEMES)}")
    scheme = parts["scheme"].lower()
    if scheme not in SCHEMES:
        raise PlanUriNotAllowed(uri, f"the scheme {scheme!r} is never used; use https, http, s3 or file")
    if parts["fragment"] is not None or (parts["query"] is not None and not with_query):
        raise PlanUriNotAllowed(
            uri, "it has a query or a fragment; the URI is kept with every run and names a file only"
        )
    _check_path(uri, parts["path"])
    place, port = _place(uri, scheme, parts["place"])
    return Location(uri, scheme, place, port, parts["path"])


def _place(uri: str, scheme: str, written: str) -> tuple[str, int | None]:
    if "@" in written:
        raise PlanUriNotAllowed(uri, "it has a user name or password; credentials are never part of it")
    if scheme == "file":
        if written:
            raise PlanUriNotAllowed(uri, "a file has no host: write file:///folder/file")
        return "", None
    if scheme == "s3":
        if not _BUCKET.fullmatch(written) or ".." in written or _is_number(written):
            raise PlanUriNotAllowed(uri, f"{written!r} is not the name of a bucket")
        return written, None
    parts = _PLACE.fullmatch(written)
    if parts is None:
        raise PlanUriNotAllowed(uri, f"{written!r} is not a host with an optional port")
    return _host(uri, parts["host"].lower()), _port(uri, scheme, parts["port"])


def _host(uri: str, host: str) -> str:
    if host.startswith("["):
        address = _address_of(host)
        if not isinstance(address, IPv6Address) or "%" in host:
            raise PlanUriNotAllowed(uri, f"{host!r} is not an IPv6 address")
        return f"[{address.compressed}]"
    if host.endswith("."):
        raise PlanUriNotAllowed(uri, "its host ends with a dot; write it without")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, host.split("."))):
        raise PlanUriNotAllowed(uri, f"{host!r} is not the name of a host")
    if _is_number(host) and _address_of(host) is None:
        raise PlanUriNotAllowed(uri, f"{host!r} is an unusual spelling of an address; write four decimals")
    return host


def _is_number(host: str) -> bool:
    """Whether some parsers would read it as an IPv4 address: its last part is a number."""
    return _LIKE_A_NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def _port(uri: str, scheme: str, written: str | None) -> int:
    if written is None:
        return _PORTS[scheme]
    if not 0 < int(written) < 65536:
        raise PlanUriNotAllowed(uri, f"{written} is not a port")
    return int(written)


def _check_path(uri: str, path: str) -> None:
    for segment in path.split("/")[1:-1]:
        if not segment:
            raise PlanUriNotAllowed(uri, "its path has an empty part (//)")
    if {".", ".."} & set(path.split("/")):
        raise PlanUriNotAllowed(uri, "its path has a part `.` or `..`")
    for escape in _ESCAPE.finditer(path):
        try:
            octet = int(escape[1] or "", 16) if len(escape[1] or "") == 2 else -1
        except ValueError:
            octet = -1
        if octet < 0 or octet in _NEVER_ESCAPED:
            raise PlanUriNotAllowed(
                uri, f"its path has {escape[0]!r}; no part of a path is written like this"
            )


# --- hosts ----------------------------------------------------------------------------------------

_ONLY_PUBLIC: Final = "loopback, private, link-local and metadata addresses are never used"


def _check_host(location: Location, places: PlanPlaces) -> None:
    """The checks of a host that need no name server."""
    host = location.place
    if host in _METADATA_HOSTS:
        raise PlanUriNotAllowed(location.uri, f"{host!r} has the credentials of a machine in a cloud")
    if _is_loopback_host(host) and not places.allow_loopback:
        raise PlanUriNotAllowed(
            location.uri,
            f"{host!r} is this machine, which is used only with `plans.allow_loopback: true` in the configuration "
            "file; for a laptop, not for a server",
        )
    address = _address_of(host)
    if address is not None:
        check_address(location, str(address), places)


def _is_loopback_host(host: str) -> bool:
    """Whether it is written as loopback; a name that only resolves to loopback does not count."""
    address = _address_of(host)
    return (
        address.is_loopback if address is not None else host == _LOCALHOST or host.endswith(f".{_LOCALHOST}")
    )


def _address_of(host: str) -> Address | None:
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _place_of(location: Location) -> str:
    port = f":{location.port}" if location.port not in (None, _PORTS.get(location.scheme)) else ""
    return f"{location.scheme}://{location.place}{port}"


def _listed(allow: Sequence[AllowedPlace]) -> str:
    if not allow:
        return "it has none at all"
    return f"entries: {', '.join(_written(place) for place in allow[:10])}"


def _written(place: AllowedPlace) -> str:
    star = "*." if place.below else ""
    port = f":{place.port}" if place.port not in (None, _PORTS.get(place.scheme)) else ""
    return f"{place.scheme}://{star}{place.place}{port}{place.folder}"
