"""Plans are signed and verified from the command line, and where signatures are required nothing else starts."""

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

import podium
from tests.acceptance.podium import Place

WORKFLOW = """
steps:
  - {name: Build, shell: 'echo built >> built.txt'}
"""
OTHER = WORKFLOW.replace("echo built", "echo evil")


class SigningPlace(Place):
    """A folder with a configuration, and keys that it trusts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.keys: dict[str, str] = {}
        self.write(WORKFLOW)
        (folder / "audit.key").write_bytes(b"k" * 32)
        (folder / "audit.key").chmod(0o600)
        (folder / "plans").mkdir()
        self.environment["PODIUM_CONFIG"] = str(folder / "config.yaml")

    def new_key(self, name: str) -> str:
        """Its public key, as it is in the line that is printed."""
        line = self.run("sign", "--new-key", f"{name}.pem").stdout.splitlines()[-1].strip()
        assert line.startswith(f"{name}: {{public: ed25519:"), line
        return line.removeprefix(f"{name}: {{public: ").removesuffix("}")

    def trust(self, *names: str, signature: str = "required", more: str = "") -> None:
        """The keys of these names, new ones included, in the tenant `default`."""
        for name in names:
            if name not in self.keys:
                self.keys[name] = self.new_key(name)
        user = pwd.getpwuid(os.getuid()).pw_name
        lines = [f"    {name}: {{public: {self.keys[name]}{more}}}" for name in names]
        config = self.folder / "config.yaml"
        config.write_text(
            "access:\n"
            "  audit_key: file:audit.key\n"
            "  tenants:\n"
            f"    default: {{users: {{{user}: admin}}, signature: {signature}}}\n"
            f"    other: {{users: {{{user}: admin}}}}\n"
            "  keys:" + ("\n" + "\n".join(lines) if lines else " {}") + "\n"
            "plans: {file_root: plans}\n"
        )
        config.chmod(0o600)

    def sign(self, key: str, plan: str = "w.yaml", *more: str) -> None:
        self.run("sign", plan, "--key", f"{key}.pem", *more)

    def refused(self, code: str, *arguments: str, exit_code: int = 77) -> str:
        """Nothing was run."""
        built = self.built
        stderr = self.run(*arguments, code=exit_code).stderr
        assert f"{code}: " in stderr, stderr
        assert self.built == built
        return stderr

    @property
    def built(self) -> str:
        file = self.folder / "built.txt"
        return file.read_text() if file.exists() else ""

    def signed_by(self, run_id: str) -> list[str]:
        shown = json.loads(self.run("runs", "show", run_id, "--json").stdout)
        return [one["keyId"] for one in shown.get("signedBy", [])]


@pytest.fixture
def place(tmp_path: Path) -> SigningPlace:
    return SigningPlace(tmp_path)


# --- runs of files --------------------------------------------------------------------------------


@pytest.mark.rule("SG05")
def test_from_a_key_to_a_run_and_to_a_refused_one(place: SigningPlace) -> None:
    place.trust("release")
    assert "podium sign PLAN --key FILE" in place.refused("PLAN_NOT_SIGNED", "run", "w.yaml")
    place.sign("release")
    assert "valid: signed with the key 'release'" in place.run("verify", "w.yaml").stdout
    place.run("run", "w.yaml", "--signature", "w.yaml.sig", "--run-id", place.run_id, "-q")
    assert place.built == "built\n"
    assert "signed   by release at " in place.run("runs", "show", place.run_id).stdout
    # Someone changes the workflow: its signature is that of another plan.
    place.write(OTHER)
    refused = place.refused("PLAN_SIGNATURE_INVALID", "run", "w.yaml", "--signature", "w.yaml.sig")
    assert "it is for plan test " in refused


@pytest.mark.rule("SG02", "SG05")
def test_a_signature_by_an_unknown_key_is_refused(place: SigningPlace) -> None:
    place.trust("release")
    place.new_key("stranger")
    place.sign("stranger")
    refused = place.refused("PLAN_SIGNER_UNKNOWN", "run", "w.yaml", "--signature", "w.yaml.sig")
    assert "no trusted key has the id 'stranger'" in refused
    place.sign("stranger", "w.yaml", "--key-id", "release", "-o", "forged.sig")
    place.refused("PLAN_SIGNATURE_INVALID", "run", "w.yaml", "--signature", "forged.sig")
    assert "run" not in place.run("runs", "list").stdout.splitlines()[1:]


@pytest.mark.rule("SG02", "SG05")
def test_a_key_of_another_tenant_is_refused(place: SigningPlace) -> None:
    place.trust("release", more=", tenants: [other]")
    place.sign("release")
    place.refused("PLAN_SIGNER_UNKNOWN", "run", "w.yaml", "--signature", "w.yaml.sig")
    place.run("verify", "w.yaml")
    place.run("verify", "w.yaml", "--tenant", "other")
    place.refused("PLAN_SIGNER_UNKNOWN", "verify", "w.yaml", "--tenant", "default")


@pytest.mark.rule("SG03", "SG05")
def test_an_expired_key_is_refused(place: SigningPlace) -> None:
    place.trust("release", more=", expires: 2020-01-01")
    place.sign("release")
    place.refused("PLAN_KEY_EXPIRED", "run", "w.yaml", "--signature", "w.yaml.sig")
    place.refused("PLAN_KEY_EXPIRED", "verify", "w.yaml")


@pytest.mark.rule("SG06")
def test_a_signature_that_is_given_is_checked_also_where_none_is_required(place: SigningPlace) -> None:
    place.trust("release", signature="optional")
    place.run("run", "w.yaml", "-q")
    place.sign("release")
    place.run("run", "w.yaml", "--signature", "w.yaml.sig", "--run-id", "signed", "-q")
    assert place.signed_by("signed") == ["release"]
    place.write(OTHER)
    place.refused("PLAN_SIGNATURE_INVALID", "run", "w.yaml", "--signature", "w.yaml.sig")
    place.refused("SIGNATURE_MALFORMED", "run", "w.yaml", "--signature", "w.yaml", exit_code=65)


@pytest.mark.rule("SG06")
def test_without_rules_no_key_is_trusted(place: SigningPlace) -> None:
    place.keys["release"] = place.new_key("release")
    del place.environment["PODIUM_CONFIG"]
    place.environment["XDG_CONFIG_HOME"] = str(place.folder / "none")
    place.sign("release")
    place.refused("PLAN_SIGNER_UNKNOWN", "run", "w.yaml", "--signature", "w.yaml.sig")
    place.run("run", "w.yaml", "-q")
    place.run("verify", "w.yaml", "--key", place.keys["release"])


@pytest.mark.rule("SG05")
def test_a_dry_run_checks_the_signature_too(place: SigningPlace) -> None:
    place.trust("release")
    place.refused("PLAN_NOT_SIGNED", "run", "w.yaml", "--dry-run")
    place.sign("release")
    place.run("run", "w.yaml", "--dry-run", "--signature", "w.yaml.sig")


# --- later runs -----------------------------------------------------------------------------------


@pytest.mark.rule("SG05", "SG07")
def test_a_rerun_is_checked_with_the_signature_that_the_first_run_was_started_with(
    place: SigningPlace,
) -> None:
    place.trust("release")
    place.sign("release")
    place.run("run", "w.yaml", "--signature", "w.yaml.sig", "--run-id", place.run_id, "-q")
    (place.folder / "w.yaml.sig").unlink()
    place.run("rerun", place.run_id, "--run-id", "again", "-q")
    assert place.signed_by("again") == ["release"]
    place.run("resume", place.run_id, "--changed", "--run-id", "changed", "-q")
    assert place.signed_by("changed") == ["release"]
    # The key is not trusted any more.
    place.trust("release", more=", expires: 2020-01-01")
    place.refused("PLAN_KEY_EXPIRED", "rerun", place.run_id)
    place.refused("PLAN_KEY_EXPIRED", "resume", place.run_id, "--changed")
    place.trust("second")
    place.refused("PLAN_SIGNER_UNKNOWN", "rerun", place.run_id)
    place.sign("second", "w.yaml", "-o", "second.sig")
    place.run("rerun", place.run_id, "--signature", "second.sig", "--run-id", "third", "-q")
    assert place.signed_by("third") == ["second"]


@pytest.mark.rule("SG05")
def test_what_was_started_before_the_rule_is_not_rerun_unsigned(place: SigningPlace) -> None:
    place.trust("release", signature="optional")
    place.run("run", "w.yaml", "--run-id", place.run_id, "-q")
    place.trust("release")
    place.refused("PLAN_NOT_SIGNED", "rerun", place.run_id)
    place.refused("PLAN_NOT_SIGNED", "resume", place.run_id, "--changed")


FAILING = """
steps:
  - {name: First, shell: 'echo first >> built.txt'}
  - {name: Second, shell: 'exit 1'}
"""
MENDED = FAILING.replace("exit 1", "echo second >> built.txt")


@pytest.mark.rule("SG05", "SG07")
def test_a_run_continues_with_another_workflow_only_if_that_is_signed(place: SigningPlace) -> None:
    place.trust("release")
    place.write(FAILING)
    place.sign("release")
    place.run("run", "w.yaml", "--signature", "w.yaml.sig", "--run-id", place.run_id, "-q", code=1)
    place.write(MENDED, "mended.yaml")
    resume = ("resume", place.run_id, "--workflow", "mended.yaml")
    changed = ("resume", place.run_id, "--changed", "--workflow", "mended.yaml")
    for command in (resume, changed):
        place.refused("PLAN_NOT_SIGNED", *command)
        place.refused("PLAN_SIGNATURE_INVALID", *command, "--signature", "w.yaml.sig")
    place.trust("release", "second")
    place.sign("second", "mended.yaml")
    place.run(*changed, "--signature", "mended.yaml.sig", "--run-id", "changed", "-q")
    assert place.signed_by("changed") == ["second"]
    assert place.signed_by(place.run_id) == ["release"]
    place.run(*resume, "--signature", "mended.yaml.sig", "-q")
    assert place.signed_by(place.run_id) == ["second"]
    # A rerun has the plan and the signature that the run has now.
    place.run("rerun", place.run_id, "--run-id", "again", "-q")
    assert place.signed_by("again") == ["second"]


@pytest.mark.rule("SG07")
def test_a_workflow_with_other_budgets_than_the_run_has_is_not_the_one_that_was_signed(
    place: SigningPlace,
) -> None:
    agents = """
    budget: {usd: 1}
    steps:
      - {name: First, shell: 'echo first >> built.txt'}
      - {name: Ask, approval: ok?}
    """
    place.trust("release")
    place.write(agents)
    place.sign("release")
    place.run(
        "run", "w.yaml", "--signature", "w.yaml.sig", "--run-id", place.run_id, "--no-wait", "-q", code=5
    )
    place.write(agents.replace("usd: 1", "usd: 9").replace("ok?", "really?"), "more.yaml")
    place.sign("release", "more.yaml")
    refused = place.refused(
        "WORKFLOW_CHANGED",
        *("resume", place.run_id, "--workflow", "more.yaml", "--signature", "more.yaml.sig", "--no-wait"),
        exit_code=65,
    )
    assert "--budget" in refused


# --- published plans ------------------------------------------------------------------------------


def _publish(place: SigningPlace, *options: str) -> str:
    uri = f"file://{place.folder}/plans/w.json"
    ref = place.run("publish", "w.yaml", "--to", uri, "--json", *options).stdout
    (place.folder / "ref.json").write_text(ref)
    return uri


@pytest.mark.rule("SG05", "SG08")
def test_the_signature_of_a_published_plan_is_published_beside_it(place: SigningPlace) -> None:
    place.trust("release")
    _publish(place)
    place.refused("PLAN_NOT_SIGNED", "run", "--plan", "ref.json")
    uri = _publish(place, "--key", "release.pem")
    place.run("run", "--plan", "ref.json", "--run-id", place.run_id, "-q")
    assert place.signed_by(place.run_id) == ["release"]
    assert "valid" in place.run("verify", "ref.json").stdout
    sha256 = json.loads((place.folder / "ref.json").read_text())["sha256"]
    assert "valid" in place.run("verify", f"{uri}#sha256={sha256}").stdout


@pytest.mark.rule("SG08")
def test_published_signatures_are_not_overwritten_and_publishing_again_changes_nothing(
    place: SigningPlace,
) -> None:
    place.trust("release", "second")
    _publish(place, "--key", "release.pem")
    written = (place.folder / "plans" / "w.json.sig").read_bytes()
    _publish(place, "--key", "release.pem")
    _publish(place)
    uri = f"file://{place.folder}/plans/w.json"
    place.refused("PLAN_EXISTS", "publish", "w.yaml", "--to", uri, "--key", "second.pem", exit_code=64)
    assert (place.folder / "plans" / "w.json.sig").read_bytes() == written


@pytest.mark.rule("SG08")
def test_the_signature_of_another_plan_is_not_published(place: SigningPlace) -> None:
    place.trust("release")
    place.sign("release")
    place.write(OTHER)
    uri = f"file://{place.folder}/plans/w.json"
    place.refused("PLAN_SIGNATURE_INVALID", "publish", "w.yaml", "--to", uri, "--signature", "w.yaml.sig")
    assert list((place.folder / "plans").iterdir()) == []


@pytest.mark.rule("SG05", "SG08")
def test_a_published_signature_that_was_replaced_or_is_too_large_is_refused(place: SigningPlace) -> None:
    place.trust("release")
    place.new_key("stranger")
    _publish(place, "--key", "release.pem")
    file = place.folder / "plans" / "w.json.sig"
    place.sign("stranger", "w.yaml", "-o", str(file.with_name("forged.sig")))
    file.with_name("forged.sig").replace(file)
    place.refused("PLAN_SIGNER_UNKNOWN", "run", "--plan", "ref.json")
    file.write_bytes(b"[" + b" " * (1 << 20) + b"]")
    place.refused("SIGNATURE_MALFORMED", "run", "--plan", "ref.json", exit_code=65)
    outside = place.folder / "outside.sig"
    place.sign("release", "w.yaml", "-o", str(outside))
    file.unlink()
    file.symlink_to(outside)
    place.refused("PLAN_URI_NOT_ALLOWED", "run", "--plan", "ref.json")


# --- keys and files -------------------------------------------------------------------------------


@pytest.mark.rule("SG09")
def test_a_new_key_is_private_and_never_overwrites_a_file(place: SigningPlace) -> None:
    os.umask(0)
    try:
        place.new_key("release")
    finally:
        os.umask(0o022)
    key = place.folder / "release.pem"
    assert key.stat().st_mode & 0o777 == 0o600
    before = key.read_bytes()
    place.run("sign", "--new-key", "release.pem", code=64)
    (place.folder / "link.pem").symlink_to("nowhere.pem")
    place.run("sign", "--new-key", "link.pem", code=64)
    assert key.read_bytes() == before
    assert not (place.folder / "nowhere.pem").exists()


@pytest.mark.rule("SG09")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_key_that_others_can_use_is_refused(place: SigningPlace, mode: int) -> None:
    place.new_key("release")
    (place.folder / "release.pem").chmod(mode)
    refused = place.run("sign", "w.yaml", "--key", "release.pem", code=65).stderr
    assert refused.startswith("SIGNING_KEY_INVALID: ")
    assert "chmod 600" in refused
    assert not (place.folder / "w.yaml.sig").exists()


def _openssl(place: SigningPlace, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=place.folder, check=True, capture_output=True)


@pytest.mark.rule("SG09")
def test_a_key_of_openssl_signs_and_its_signature_is_what_openssl_accepts(place: SigningPlace) -> None:
    _openssl(place, "genpkey", "-algorithm", "ed25519", "-out", "k.pem")
    (place.folder / "k.pem").chmod(0o600)
    place.sign("k")
    [one] = json.loads((place.folder / "w.yaml.sig").read_bytes())
    message = json.dumps(one["statement"], sort_keys=True, separators=(",", ":"))
    (place.folder / "message").write_text(message)
    subprocess.run(
        ["openssl", "base64", "-d", "-A", "-out", "raw.sig"],
        cwd=place.folder,
        check=True,
        input=one["signature"].encode(),
    )
    _openssl(
        place, "pkeyutl", "-verify", "-inkey", "k.pem", "-rawin", "-in", "message", "-sigfile", "raw.sig"
    )


@pytest.mark.rule("SG09")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("genpkey", "-algorithm", "rsa", "-out", "k.pem"), "another kind (RSA)"),
        (
            ("genpkey", "-algorithm", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "k.pem"),
            "kind (EC)",
        ),
        (("genpkey", "-algorithm", "ed448", "-out", "k.pem"), "another kind (Ed448)"),
        (
            ("genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:secret", "-out", "k.pem"),
            "is encrypted",
        ),
        (("rand", "-out", "k.pem", "100"), "is not a private key"),
    ],
)
def test_another_key_is_refused_with_what_would_be_right(
    place: SigningPlace, arguments: tuple[str, ...], text: str
) -> None:
    _openssl(place, *arguments)
    (place.folder / "k.pem").chmod(0o600)
    refused = place.run("sign", "w.yaml", "--key", "k.pem", code=65).stderr
    assert refused.startswith("SIGNING_KEY_INVALID: ")
    assert text in refused


def test_several_keys_sign_one_plan_and_what_was_signed_before_a_change_is_replaced(
    place: SigningPlace,
) -> None:
    place.trust("one", "two")
    place.sign("one")
    place.sign("two", "w.yaml", "--expires", "2099-01-01")
    shown = json.loads(place.run("verify", "w.yaml", "--json").stdout)
    assert shown["valid"] is True
    assert [(found["keyId"], found["finding"]) for found in shown["signatures"]] == [
        ("one", "valid"),
        ("two", "valid"),
    ]
    place.write(OTHER)
    place.refused("PLAN_SIGNATURE_INVALID", "verify", "w.yaml")
    place.sign("two")
    shown = json.loads(place.run("verify", "w.yaml", "--json").stdout)
    assert [found["keyId"] for found in shown["signatures"]] == ["two"]


def test_a_plan_file_and_its_workflow_have_the_same_signature(place: SigningPlace) -> None:
    place.trust("release")
    (place.folder / "p.json").write_text(place.run("plan", "w.yaml", "--json").stdout)
    place.sign("release", "p.json")
    place.run("verify", "p.json")
    place.run("verify", "w.yaml", "--signature", "p.json.sig")
    before = (place.folder / "p.json").read_bytes()
    (place.folder / "p.json").write_bytes(before.replace(b"echo built", b"echo evils"))
    place.refused("PLAN_SIGNATURE_INVALID", "verify", "p.json")
    (place.folder / "p.json").write_bytes(before + b" ")
    place.refused("INVALID_PLAN_SCHEMA", "verify", "p.json", exit_code=65)


@pytest.mark.rule("SG04")
def test_verify_says_of_each_signature_what_it_is_worth(place: SigningPlace) -> None:
    place.trust("good")
    place.new_key("stranger")
    place.sign("good")
    place.sign("stranger")
    shown = place.run("verify", "w.yaml").stdout
    assert "valid: signed with the key 'good'" in shown
    assert "unknown key: no trusted key has the id 'stranger'" in shown
    (place.folder / "w.yaml.sig").write_text("[]")
    place.refused("PLAN_NOT_SIGNED", "verify", "w.yaml")
    (place.folder / "w.yaml.sig").write_bytes(b"\0" * 100_000)
    place.refused("SIGNATURE_MALFORMED", "verify", "w.yaml", exit_code=65)
    place.refused("SIGNATURE_MALFORMED", "verify", "w.yaml", "--signature", "/dev/zero", exit_code=65)


# --- the package ----------------------------------------------------------------------------------

_WITHOUT = "import sys; sys.modules['cryptography'] = None; from podium.cli import main; sys.exit(main())"


def _without_library(place: SigningPlace, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT, *arguments],
        cwd=place.folder,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.rule("SG10")
def test_without_the_package_unsigned_runs_work_and_signatures_say_what_to_install(
    place: SigningPlace,
) -> None:
    place.trust("release", signature="optional")
    place.sign("release")
    done = _without_library(place, "run", "w.yaml", "-q")
    assert (done.returncode, place.built) == (0, "built\n")
    for command in (
        ("run", "w.yaml", "--signature", "w.yaml.sig"),
        ("verify", "w.yaml"),
        ("sign", "w.yaml", "--key", "release.pem"),
        ("sign", "--new-key", "new.pem"),
    ):
        refused = _without_library(place, *command)
        assert refused.returncode == 78, refused.stderr
        assert "EXTRA_MISSING" in refused.stderr
        assert "pip install 'podium[signing]'" in refused.stderr
    assert place.built == "built\n"


# --- keys for those who only verify ----------------------------------------------------------------


def test_keys_in_a_file_are_trusted_instead_of_those_of_the_configuration(place: SigningPlace) -> None:
    place.trust("release")
    place.sign("release")
    (place.folder / "keys.yaml").write_text(
        f"keys:\n  release: {{public: {place.keys['release']}, tenants: [acme]}}\n"
    )
    place.run("verify", "w.yaml", "--keys", "keys.yaml")
    place.run("verify", "w.yaml", "--keys", "keys.yaml", "--tenant", "acme")
    place.refused("PLAN_SIGNER_UNKNOWN", "verify", "w.yaml", "--keys", "keys.yaml", "--tenant", "default")
    (place.folder / "keys.yaml").write_text(
        f"keys:\n  release: {{public: {place.keys['release']}, expires: 2020-01-01}}\n"
    )
    place.refused("PLAN_KEY_EXPIRED", "verify", "w.yaml", "--keys", "keys.yaml")
    (place.folder / "keys.yaml").write_text("keys:\n  other: {public: ed25519:AAAA}\nrelease: 1\n")
    wrong = place.run("verify", "w.yaml", "--keys", "keys.yaml", code=78).stderr
    assert "keys.yaml:2:11: `access.keys.other.public` is 3 bytes" in wrong
    assert "keys.yaml:3:1: 'release' is not a setting. Settings: keys" in wrong
    (place.folder / "keys.yaml").write_text("nothing\n")
    assert "lists no keys" in place.run("verify", "w.yaml", "--keys", "keys.yaml", code=78).stderr


# --- Python ---------------------------------------------------------------------------------------


@pytest.mark.rule("SG05")
def test_a_python_program_gives_the_signature_too(
    place: SigningPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.trust("release")
    place.sign("release")
    monkeypatch.setenv("PODIUM_CONFIG", place.environment["PODIUM_CONFIG"])
    monkeypatch.chdir(place.folder)
    with pytest.raises(podium.PodiumError) as refused:
        podium.run("w.yaml")
    assert refused.value.code == "PLAN_NOT_SIGNED"
    assert podium.run("w.yaml", run_id="r", signature="w.yaml.sig").status == "completed"
    assert place.built == "built\n"
    assert place.signed_by("r") == ["release"]
