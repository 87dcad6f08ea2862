"""Which hosts an HTTP step may call."""

import pytest

from podium.runtime.tasks.addresses import AddressRefused, check_address, check_host


@pytest.mark.rule("D68")
@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "febf::1",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "2001:0:a9fe:a9fe::1",
        "2001:0:1:1:0:0:5601:5601",  # Teredo: the client's address stands inverted
        "fd00:ec2::254",
        "fd00:ec2:0:0::23",
        "fd20:ce::254",
        "100.100.100.200",
        "::ffff:100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
    ],
)
def test_link_local_and_metadata_addresses_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused, match="never called"):
        check_address("some.host", address)


@pytest.mark.rule("D68")
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "::",
        "10.0.0.1",
        "192.168.1.1",
        "fd00::1",
        "93.184.216.34",
        "2606:2800::1",
        "169.253.0.1",
    ],
)
def test_other_addresses_are_called(address: str) -> None:
    check_address("some.host", address)


@pytest.mark.rule("D68")
@pytest.mark.parametrize(
    ("host", "allowed", "is_allowed"),
    [
        ("anything", [], True),
        ("api.example.com", ["api.example.com"], True),
        ("API.Example.com.", ["api.example.COM"], True),
        ("evil-api.example.com", ["api.example.com"], False),
        ("api.example.com.evil.net", ["api.example.com"], False),
        ("a.example.com", ["*.example.com"], True),
        ("a.b.example.com", ["*.example.com"], True),
        ("example.com", ["*.example.com"], False),
        ("evilexample.com", ["*.example.com"], False),
        ("b", ["a", "b"], True),
    ],
)
def test_http_allow_narrows_the_hosts(host: str, allowed: list[str], is_allowed: bool) -> None:
    if is_allowed:
        check_host(host, allowed)
    else:
        with pytest.raises(AddressRefused, match="http_allow"):
            check_host(host, allowed)
