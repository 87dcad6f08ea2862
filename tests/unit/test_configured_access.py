"""`access` in the configuration file: rules about who may do what, with the place of every problem."""

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from podium.access.policy import TenantRules, TrustedKey
from podium.access.roles import Role
from podium.configuration import Configuration, configuration
from podium.errors import InvalidConfiguration
from podium.secrets.sources import FileSource

DIGEST = sha256(b"token of ci").hexdigest()
KEY = b64encode(bytes(range(32))).decode()
WHOLE = f"""\
access:
  audit_key: file:audit.key
  tenants:
    acme:
      users: {{alice: [engineer, approver], bob: viewer, ci-bot: operator}}
      approval: [release]
      signature: required
    other:
      users: {{carol: admin}}
      approval: all
  tokens:
    ci-bot: sha256:{DIGEST}
  keys:
    release-2026: {{public: "ed25519:{KEY}", expires: 2027-01-01, tenants: [acme]}}
"""
START = "access:\n  audit_key: file:k\n"
TOKENS = f"  tokens: {{x: 'sha256:{DIGEST}', y: 'sha256:{DIGEST}'}}"
TENANTS = "  tenants: {acme: {users: {alice: admin}}}\n"


@pytest.fixture(autouse=True)
def own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PODIUM_CONFIG", str(tmp_path / "c.yaml"))


def configured(folder: Path, text: str, mode: int = 0o600) -> Configuration:
    file = folder / "c.yaml"
    file.write_text(text)
    file.chmod(mode)
    return configuration()


def problems(folder: Path, text: str) -> str:
    with pytest.raises(InvalidConfiguration) as raised:
        configured(folder, text)
    return str(raised.value).replace(str(folder / "c.yaml"), "c")


def test_a_file_gives_the_roles_tokens_and_keys_of_its_tenants(tmp_path: Path) -> None:
    access = configured(tmp_path, WHOLE).access
    assert access is not None
    assert access.audit_key == FileSource(tmp_path / "audit.key")
    assert access.policy.tenants == {
        "acme": TenantRules(
            {
                "alice": frozenset({Role.ENGINEER, Role.APPROVER}),
                "bob": frozenset({Role.VIEWER}),
                "ci-bot": frozenset({Role.OPERATOR}),
            },
            approval=frozenset({"release"}),
            signature=True,
        ),
        "other": TenantRules({"carol": frozenset({Role.ADMIN})}, approval="all"),
    }
    assert access.policy.tokens == {DIGEST: "ci-bot"}
    assert access.policy.keys == {
        "release-2026": TrustedKey(
            "release-2026", bytes(range(32)), "2027-01-01T00:00:00.000000Z", frozenset({"acme"})
        )
    }


def test_a_user_can_have_several_tokens_while_they_are_exchanged(tmp_path: Path) -> None:
    other = "a" * 64
    access = configured(
        tmp_path, f"{START}{TENANTS}  tokens: {{alice: ['sha256:{DIGEST}', 'sha256:{other}']}}"
    )
    assert access.access is not None
    assert access.access.policy.tokens == {DIGEST: "alice", other: "alice"}


@pytest.mark.parametrize(
    ("written", "expires"),
    [
        ("2027-01-01T12:00:00Z", "2027-01-01T12:00:00.000000Z"),
        ("2027-01-01T12:00:00+02:00", "2027-01-01T10:00:00.000000Z"),
    ],
)
def test_a_key_can_expire_at_a_moment(tmp_path: Path, written: str, expires: str) -> None:
    key = f"  keys: {{k: {{public: 'ed25519:{KEY}', expires: '{written}'}}}}"
    access = configured(tmp_path, START + TENANTS + key).access
    assert access is not None
    assert access.policy.keys["k"] == TrustedKey("k", bytes(range(32)), expires)


def tenant(text: str) -> str:
    return f"{START}  tenants:\n    acme: {text}"


def key(text: str) -> str:
    return f"{START}{TENANTS}  keys:\n    k: {text}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("access:", "c:1:1: `access` is empty; write a mapping with audit_key and tenants"),
        ("access: {}", "c:1:1: `access` is empty; write a mapping with audit_key and tenants"),
        ("access: [a]", "c:1:1: `access` is a list; write a mapping with audit_key and tenants"),
        ("acess: {}", "c:1:1: 'acess' is not a setting. Did you mean 'access'?"),
        (f"{START}{TENANTS}  tokns: {{}}", "c:4:3: 'access.tokns' is not a setting. Did you mean 'tokens'?"),
        ("access:\n" + TENANTS, "c:1:1: `access` needs `audit_key`, the source of the key that seals"),
        (f"access:\n  audit_key: 3\n{TENANTS}", "c:2:3: `access.audit_key` is not a text; write file:PATH"),
        (
            f"access:\n  audit_key: x\n{TENANTS}",
            "c:2:3: `access.audit_key` is not a source: it is a text without",
        ),
        (START, "c:1:1: `access` needs `tenants`: without them no one may do anything"),
        (f"{START}  tenants: {{}}", "c:3:3: `access.tenants` is empty; write a mapping of tenants"),
        (f"{START}  tenants: [a]", "c:3:3: `access.tenants` is a list; write a mapping of tenants"),
        (f"{START}  tenants: {{a b: {{users: {{a: admin}}}}}}", "c:3:13: tenant 'a b' is not a valid id"),
        (tenant("[]"), "c:4:5: `access.tenants.acme` is a list; write a mapping"),
        (tenant("{approval: all}"), "c:4:5: `access.tenants.acme` needs `users`: without them no one"),
        (
            tenant("{user: {a: admin}}"),
            "c:4:12: 'access.tenants.acme.user' is not a setting. Did you mean 'users'?",
        ),
        (tenant("{users: {}}"), "c:4:12: `access.tenants.acme.users` is empty; write a mapping of users"),
        (
            tenant("{users: [alice]}"),
            "c:4:12: `access.tenants.acme.users` is a list; write a mapping of users",
        ),
        (tenant("{users: {a b: admin}}"), "c:4:20: user 'a b' is not a valid id"),
        (
            tenant("{users: {alice: [viewer, enginer]}}"),
            "c:4:36: `access.tenants.acme.users.alice` has the text 'enginer', which is not a role. Did",
        ),
        (
            tenant("{users: {alice: 3}}"),
            "c:4:27: `access.tenants.acme.users.alice` has the number 3, which is not a role. Roles: viewer,",
        ),
        (
            tenant("{users: {alice: []}}"),
            "c:4:20: `access.tenants.acme.users.alice` is a list; give the user at least one role: viewer,",
        ),
        (
            tenant("{users: {alice: }}"),
            "c:4:20: `access.tenants.acme.users.alice` is empty; give the user at least one role",
        ),
        (
            tenant("{users: {a: admin}, approval: release}"),
            "`access.tenants.acme.approval` is the text 'release'; write a list of plan ids, like [release], or all",
        ),
        (
            tenant("{users: {a: admin}, approval: []}"),
            "`access.tenants.acme.approval` is a list; write a list",
        ),
        (
            tenant("{users: {a: admin}, approval: [a|b]}"),
            "`access.tenants.acme.approval`: plan 'a|b' is not a valid id",
        ),
        (
            tenant("{users: {a: admin}, approval: [1]}"),
            "`access.tenants.acme.approval` has the number 1; write the id of a plan",
        ),
        (
            tenant("{users: {a: admin}, signature: yes}"),
            "`access.tenants.acme.signature` is the text 'yes'; write required or optional",
        ),
        (f"{START}{TENANTS}  tokens: {{}}", "c:4:3: `access.tokens` is empty; write a mapping of users"),
        (
            f"{START}{TENANTS}  tokens: {{bob: 'sha256:{DIGEST}'}}",
            "c:4:12: `access.tokens.bob` is for a user without any role, who may do nothing; list 'bob' in the `users`",
        ),
        (
            f"{START}{TENANTS}  tokens: {{alice: []}}",
            "c:4:12: `access.tokens.alice` is a list; write sha256:HEX",
        ),
        (
            f"{START}{TENANTS}  tokens: {{alice: ['sha256:{DIGEST}', 'sha256:{DIGEST.upper()}']}}",
            "`access.tokens.alice` has the same token as 'alice'; give every user a token of their own",
        ),
        (
            f"{START}  tenants: {{a: {{users: {{x: admin, y: admin}}}}}}\n{TOKENS}",
            "`access.tokens.y` has the same token as 'x'",
        ),
        (f"{START}{TENANTS}  keys: {{}}", "c:4:3: `access.keys` is empty; write a mapping of keys"),
        (f"{START}{TENANTS}  keys: {{'a|b': {{public: x}}}}", "c:4:10: key 'a|b' is not a valid id"),
        (key("text"), "c:5:5: `access.keys.k` is a text; write a mapping, like {public: ed25519:BASE64"),
        (key("{expires: 2027-01-01}"), "c:5:5: `access.keys.k` needs `public`; write ed25519:"),
        (key("{public: rsa}"), "c:5:9: `access.keys.k.public` is not a text that starts with ed25519:"),
        (key("{public: 'ed25519:***'}"), "c:5:9: `access.keys.k.public` is not Base64; write ed25519:"),
        (
            key("{public: 'ed25519:AAAA'}"),
            "c:5:9: `access.keys.k.public` is 3 bytes; write ed25519: and the 32",
        ),
        (
            key(f"{{pubic: 'ed25519:{KEY}'}}"),
            "'access.keys.k.pubic' is not a setting. Did you mean 'public'?",
        ),
        (
            key(f"{{public: 'ed25519:{KEY}', expires: 2027-13-01}}"),
            "`access.keys.k.expires` is the text '2027-13-01'; write a date, like 2027-01-01, or a moment",
        ),
        (
            key(f"{{public: 'ed25519:{KEY}', expires: soon}}"),
            "`access.keys.k.expires` is the text 'soon'; write a",
        ),
        (
            key(f"{{public: 'ed25519:{KEY}', expires: 2027}}"),
            "`access.keys.k.expires` is the number 2027; write a",
        ),
        (
            key(f"{{public: 'ed25519:{KEY}', expires: '2027-01-01T12:00:00'}}"),
            "`access.keys.k.expires` is the text '2027-01-01T12:00:00'; write a date",
        ),
        (
            key(f"{{public: 'ed25519:{KEY}', tenants: acme}}"),
            "`access.keys.k.tenants` is the text 'acme'; write a",
        ),
        (
            key(f"{{public: 'ed25519:{KEY}', tenants: []}}"),
            "`access.keys.k.tenants` is a list; write a list of",
        ),
        (
            key(f"{{public: 'ed25519:{KEY}', tenants: [acne]}}"),
            "`access.keys.k.tenants` has 'acne', which is not configured. Did you mean 'acme'? Tenants: acme",
        ),
        (
            key(f"{{public: 'ed25519:{KEY}'}}\n    l: {{public: 'ed25519:{KEY}'}}"),
            "c:6:5: `access.keys.l` is the same key as 'k'; list it once",
        ),
    ],
)
def test_a_wrong_rule_is_reported_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in problems(tmp_path, text)


def test_an_unknown_role_is_compared_with_those_that_exist(tmp_path: Path) -> None:
    assert problems(tmp_path, tenant("{users: {alice: enginer}}")).endswith(
        "which is not a role. Did you mean 'engineer'? Roles: viewer, auditor, operator, engineer, admin, approver, "
        "author, system, owner"
    )


def test_every_problem_of_a_file_is_reported(tmp_path: Path) -> None:
    found = problems(
        tmp_path, "access:\n  tenants: {a: {users: {b: boss}, approval: 1, signature: 2}}\n  keys: 3"
    )
    assert found.count("\n") == 4


@pytest.mark.parametrize(
    "tokens",
    [
        "hunter22",
        "[hunter22]",
        "{alice: hunter22}",
        "{alice: [hunter22]}",
        "{alice: {x: hunter22}}",
        "{alice: 'sha256:hunter22'}",
        f"{{alice: 'sha512:{DIGEST}'}}",
    ],
)
def test_a_token_in_the_place_of_its_sha256_is_not_shown(tmp_path: Path, tokens: str) -> None:
    found = problems(tmp_path, f"{START}{TENANTS}  tokens: {tokens}")
    assert found.startswith(("c:4:3: `access.tokens` is", "c:4:"))
    assert "hunter22" not in found
    assert DIGEST not in found


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_rules_in_a_file_that_others_can_change_are_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(
        InvalidConfiguration, match=r":1:1: `access` is in a file that other users can change; `chmod go-w`"
    ):
        configured(tmp_path, WHOLE, mode)
    # Also if it was read before that.
    assert configured(tmp_path, WHOLE, 0o644).access is not None
    (tmp_path / "c.yaml").chmod(mode)
    with pytest.raises(InvalidConfiguration):
        configuration()


def test_other_settings_may_be_in_a_file_that_others_can_change(tmp_path: Path) -> None:
    assert configured(tmp_path, "permissions: umask", 0o666).permissions == "umask"
