"""Where plans may be fetched from: a table of URIs, and what becomes of each."""

import pytest

from podium.plan.locations import (
    PlanPlaces,
    PlanUriNotAllowed,
    allowed_place,
    check_address,
    check_redirect,
    locate,
)

PLACES = PlanPlaces(
    tuple(
        map(
            allowed_place,
            (
                "https://plans.example.com/releases",
                "https://plans.example.com:8443",
                "https://*.mirror.example.com",
                "http://plain.example.com",
                "https://93.184.216.34",
                "https://[2606:2800:220:1::1]",
                "s3://release-plans/prod",
                "s3://plans.example",
                # An operator's mistake does not open what is never allowed.
                "http://127.0.0.1:8080",
                "http://localhost",
                "https://10.0.0.5",
                "http://169.254.169.254",
                "http://metadata.google.internal",
                "http://[::1]",
            ),
        )
    ),
    file_root="/srv/plans",
)
LAPTOP = PlanPlaces(PLACES.allow, allow_loopback=True)
NO_FILES = PlanPlaces(PLACES.allow)

ALLOWED = [
    "https://plans.example.com/releases/a.json",
    "https://plans.example.com/releases/2026/a%20b.json",
    "https://PLANS.example.com/releases/a.json",
    "HTTPS://plans.example.com/releases/a.json",
    "https://plans.example.com:443/releases/a.json",
    "https://plans.example.com:8443/anything.json",
    "https://eu.mirror.example.com/a.json",
    "https://a.b.mirror.example.com/a.json",
    "http://plain.example.com/a.json",
    "https://93.184.216.34/a.json",
    "https://[2606:2800:220:1::1]/a.json",
    "https://[2606:2800:0220:0001:0:0:0:1]/a.json",
    "s3://release-plans/prod/a.json",
    "s3://plans.example/a/b..c.json",
    "file:///srv/plans/a.json",
]

# Each with words of the reason.
REFUSED = [
    # Schemes.
    ("ftp://plans.example.com/releases/a.json", "scheme 'ftp'"),
    ("gopher://plans.example.com/releases/a.json", "scheme 'gopher'"),
    ("data:application/json,{}", "characters"),
    ("data://text/plain", "scheme 'data'"),
    ("javascript://plans.example.com/releases/a", "scheme 'javascript'"),
    ("gs://release-plans/prod/a.json", "scheme 'gs'"),
    ("jar:https://plans.example.com/releases/a.json", "does not start with"),
    ("//plans.example.com/releases/a.json", "does not start with"),
    ("plans.example.com/releases/a.json", "does not start with"),
    ("/srv/plans/a.json", "does not start with"),
    ("", "characters"),
    # Not in the list.
    ("https://example.com/a.json", "no entry for https://example.com"),
    ("https://plans.example.com/a.json", "no entry"),
    ("https://plans.example.com/releases2/a.json", "no entry"),
    ("https://plans.example.com:444/releases/a.json", "no entry for https://plans.example.com:444"),
    ("http://plans.example.com/releases/a.json", "no entry for http://plans.example.com"),
    ("https://plain.example.com/a.json", "no entry"),
    ("https://mirror.example.com/a.json", "no entry"),
    ("https://evilmirror.example.com/a.json", "no entry"),
    ("https://plans.example.com.evil.example/releases/a.json", "no entry"),
    ("s3://release-plans/test/a.json", "no entry"),
    ("s3://release-plans/production/a.json", "no entry"),
    ("s3://other/prod/a.json", "no entry for s3://other"),
    # Credentials, queries, fragments.
    ("https://user:secret@plans.example.com/releases/a.json", "user name"),
    ("https://plans.example.com@evil.example/releases/a.json", "user name"),
    ("https://evil.example\\@plans.example.com/releases/a.json", "characters"),
    ("https://evil.example#@plans.example.com/releases/a.json", "fragment"),
    ("https://plans.example.com/releases/a.json?token=secret", "query"),
    ("https://plans.example.com/releases/a.json#x", "fragment"),
    # Loopback, in every spelling.
    ("http://127.0.0.1:8080/a.json", "this machine"),
    ("http://127.1:8080/a.json", "unusual spelling"),
    ("http://127.0.1/a.json", "unusual spelling"),
    ("http://2130706433/a.json", "unusual spelling"),
    ("http://0x7f000001/a.json", "unusual spelling"),
    ("http://0x7f.0.0.1/a.json", "unusual spelling|no entry"),
    ("http://0177.0.0.1/a.json", "unusual spelling"),
    ("http://017700000001/a.json", "unusual spelling"),
    ("http://127.0.0.1./a.json", "ends with a dot"),
    ("http://127.8.8.8/a.json", "this machine"),
    ("http://0.0.0.0/a.json", "0.0.0.0"),
    ("http://0/a.json", "unusual spelling"),
    ("http://localhost/a.json", "this machine"),
    ("http://LocalHost/a.json", "this machine"),
    ("http://localhost./a.json", "ends with a dot"),
    ("http://a.localhost/a.json", "this machine"),
    ("http://[::1]/a.json", "this machine"),
    ("http://[0:0:0:0:0:0:0:1]/a.json", "this machine"),
    ("http://[::]/a.json", "address ::"),
    ("http://[::ffff:127.0.0.1]/a.json", "address ::ffff"),
    ("http://[::ffff:7f00:1]/a.json", "address ::ffff"),
    ("http://[::127.0.0.1]/a.json", "address ::"),
    ("http://[64:ff9b::7f00:1]/a.json", "address 64:ff9b::"),
    ("http://[2002:7f00:1::]/a.json", "address 2002:"),
    ("http://①②⑦.⓪.⓪.①/a.json", "characters"),
    ("http://１２７.0.0.1/a.json", "characters"),
    # Private, link-local, metadata.
    ("https://10.0.0.5/a.json", "address 10.0.0.5"),
    ("https://172.16.0.1/a.json", "address 172.16.0.1"),
    ("https://192.168.1.1/a.json", "address 192.168.1.1"),
    ("https://100.64.0.1/a.json", "address 100.64.0.1"),
    ("https://192.0.2.1/a.json", "address 192.0.2.1"),
    ("https://224.0.1.1/a.json", "address 224.0.1.1"),
    ("https://240.0.0.1/a.json", "address 240.0.0.1"),
    ("https://255.255.255.255/a.json", "address 255.255.255.255"),
    ("http://169.254.169.254/latest/meta-data", "address 169.254.169.254"),
    ("http://2852039166/latest/meta-data", "unusual spelling"),
    ("http://0xa9fea9fe/latest/meta-data", "unusual spelling"),
    ("http://0251.0376.0251.0376/latest", "unusual spelling"),
    ("http://[::ffff:169.254.169.254]/latest", "address ::ffff"),
    ("http://[fe80::1]/a.json", "address fe80::1"),
    ("http://[fe80::1%25eth0]/a.json", "IPv6|host"),
    ("http://[fc00::1]/a.json", "address fc00::1"),
    ("http://[fec0::1]/a.json", "address fec0::1"),
    ("http://[fd00:ec2::254]/latest", "address fd00:ec2::254"),
    ("http://168.63.129.16/a.json", "address 168.63.129.16"),
    ("http://100.100.100.200/latest/meta-data", "address 100.100.100.200"),
    ("http://metadata.google.internal/computeMetadata/v1", "credentials of a machine"),
    ("http://METADATA/computeMetadata/v1", "credentials of a machine"),
    # Hosts that are none.
    ("https:///releases/a.json", "not the name of a host"),
    ("https://plans.example.com:0/releases/a.json", "not a port"),
    ("https://plans.example.com:99999/releases/a.json", "not a port"),
    ("https://plans.example.com:8443x/releases/a.json", "optional port"),
    ("https://plans..example.com/releases/a.json", "not the name of a host"),
    ("https://plans%2eexample.com/releases/a.json", "not the name of a host"),
    ("https://-plans.example.com/releases/a.json", "not the name of a host"),
    ("https://[plans.example.com]/releases/a.json", "not an IPv6 address"),
    ("https://*.mirror.example.com/a.json", "not the name of a host"),
    # Paths.
    ("https://plans.example.com/releases/../secret.json", "`..`"),
    ("https://plans.example.com/releases/./a.json", "`.`"),
    ("https://plans.example.com/releases/%2e%2e/secret.json", "%2e"),
    ("https://plans.example.com/releases/.%2E/secret.json", "%2E"),
    ("https://plans.example.com/releases/%252e%252e/a.json", "%25"),
    ("https://plans.example.com/releases%2f..%2fa.json", "%2f"),
    ("https://plans.example.com/releases/a%00.json", "%00"),
    ("https://plans.example.com/releases/a%5cb.json", "%5c"),
    ("https://plans.example.com/releases/a%0d%0aHost:b", "%0d"),
    ("https://plans.example.com/releases/a%zz.json", "%zz"),
    ("https://plans.example.com/releases/a%", "'%'"),
    ("https://plans.example.com/releases//a.json", "empty part"),
    ("https://plans.example.com//releases/a.json", "empty part"),
    ("https://plans.example.com/releases/a b.json", "characters"),
    ("https://plans.example.com/releases/a\r\nHost: evil", "characters"),
    ("https://plans.example.com/releases/a\tb", "characters"),
    ("https://plans.example.com/releases/", "names a folder"),
    ("https://plans.example.com:8443", "names a folder"),
    ("https://plans.example.com/releases/" + "a" * 3000, "3,035 characters"),
    # Buckets.
    ("s3://release-plans/../other/a.json", "`..`"),
    ("s3://release-plans/prod/../../a.json", "`..`"),
    ("s3://release-plans/prod/%2e%2e/a.json", "%2e"),
    ("s3://169.254.169.254/a.json", "not the name of a bucket"),
    ("s3://key:secret@release-plans/prod/a.json", "user name"),
    ("s3://Release-Plans/prod/a.json", "not the name of a bucket"),
    ("s3://release-plans:9000/prod/a.json", "not the name of a bucket"),
    ("s3:///prod/a.json", "not the name of a bucket"),
    ("s3://release-plans", "names a folder"),
    # Files.
    ("file://localhost/srv/plans/a.json", "no host"),
    ("file://server/srv/plans/a.json", "no host"),
    ("file:/srv/plans/a.json", "does not start with"),
    ("file:///srv/plans/../secret.json", "`..`"),
    ("file:///srv/plans/%2e%2e/secret.json", "%2e"),
    ("file:///srv/plans/", "names a folder"),
]


def test_the_table_is_large_enough() -> None:
    assert len({uri for uri, _ in REFUSED}) >= 60
    assert PlanUriNotAllowed.code == "PLAN_URI_NOT_ALLOWED"


@pytest.mark.rule("PR01")
@pytest.mark.parametrize("uri", ALLOWED)
def test_a_plan_may_be_fetched_from_a_place_that_is_listed(uri: str) -> None:
    assert locate(uri, PLACES).uri == uri


@pytest.mark.rule("PR01")
@pytest.mark.parametrize(("uri", "reason"), REFUSED)
def test_a_plan_is_fetched_from_nowhere_else(uri: str, reason: str) -> None:
    with pytest.raises(PlanUriNotAllowed, match="is not allowed: ") as refused:
        locate(uri, PLACES)
    assert any(words in refused.value.reason for words in reason.split("|")), refused.value.reason
    assert "secret@" not in str(refused.value)


@pytest.mark.rule("PR01")
@pytest.mark.parametrize("uri", ALLOWED)
def test_without_a_configuration_there_is_no_place(uri: str) -> None:
    with pytest.raises(PlanUriNotAllowed):
        locate(uri, PlanPlaces())


def test_files_need_a_root() -> None:
    with pytest.raises(PlanUriNotAllowed, match=r"`plans\.file_root`"):
        locate("file:///srv/plans/a.json", NO_FILES)


@pytest.mark.rule("PR01")
@pytest.mark.parametrize(
    ("uri", "allowed"),
    [
        ("http://127.0.0.1:8080/a.json", True),
        ("http://localhost/a.json", True),
        ("http://[::1]/a.json", True),
        # In the list, and never allowed; or allowed, and not in the list.
        ("http://127.0.0.1:9090/a.json", False),
        ("http://127.1:8080/a.json", False),
        ("http://2130706433/a.json", False),
        ("http://[::ffff:127.0.0.1]/a.json", False),
        ("http://0.0.0.0/a.json", False),
        ("https://10.0.0.5/a.json", False),
        ("http://169.254.169.254/a.json", False),
        ("http://metadata.google.internal/a.json", False),
    ],
)
def test_a_laptop_may_use_loopback_as_it_is_written_and_nothing_else(uri: str, allowed: bool) -> None:
    if allowed:
        assert locate(uri, LAPTOP).uri == uri
    else:
        with pytest.raises(PlanUriNotAllowed):
            locate(uri, LAPTOP)


@pytest.mark.rule("PR01")
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "192.168.0.1",
        "0.0.0.0",
        "::1",
        "::ffff:8.8.8.8",
        "fe80::1%eth0",
        "64:ff9b::a00:1",
    ],
)
def test_a_listed_name_that_resolves_to_an_address_inside_is_refused(address: str) -> None:
    for places in (PLACES, LAPTOP):
        location = locate("https://plans.example.com/releases/a.json", places)
        with pytest.raises(PlanUriNotAllowed, match="its host has the address"):
            check_address(location, address, places)
        check_address(location, "93.184.216.34", places)


def test_localhost_may_have_loopback_addresses_only_on_a_laptop() -> None:
    location = locate("http://localhost/a.json", LAPTOP)
    check_address(location, "127.0.0.1", LAPTOP)
    check_address(location, "::1", LAPTOP)
    with pytest.raises(PlanUriNotAllowed):
        check_address(location, "127.0.0.1", PLACES)
    with pytest.raises(PlanUriNotAllowed):
        check_address(location, "10.0.0.1", LAPTOP)


@pytest.mark.rule("PR02")
def test_a_redirect_may_have_a_signature_and_never_leaves_https() -> None:
    signed = locate("https://eu.mirror.example.com/a.json?sig=1", PLACES, redirected=True)
    before = locate("https://plans.example.com/releases/a.json", PLACES)
    check_redirect(before, signed)
    plain = locate("http://plain.example.com/a.json", PLACES, redirected=True)
    with pytest.raises(PlanUriNotAllowed, match="from https to http"):
        check_redirect(before, plain)
    check_redirect(plain, before)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("plans.example.com", "does not start with"),
        ("ftp://plans.example.com", "never used"),
        ("file:///srv/plans", "`plans.file_root`"),
        ("https://*", "characters|host"),
        ("https://*.10.0.0.1", "followed by the name of a host"),
        ("s3://*.bucket", "followed by the name of a host"),
        ("https://user@plans.example.com", "user name"),
        ("https://plans.example.com/a/../b", "`..`"),
        ("https://plans.example.com?x=1", "query"),
        ("https://", "host"),
        ("", "characters"),
    ],
)
def test_an_entry_of_the_list_that_means_nothing_is_refused(entry: str, reason: str) -> None:
    with pytest.raises(PlanUriNotAllowed) as refused:
        allowed_place(entry)
    assert any(words in refused.value.reason for words in reason.split("|")), refused.value.reason
