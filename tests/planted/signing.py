"""Violations of the rules about signed plans in docs/conformance/workflow-engine.md."""

from typing import Final

from tests.planted.edits import body, drop, start, swap
from tests.planted.faults import Fault, fault

_FILES = "access/signatures.py"
_VERDICTS = "access/verdicts.py"
_RUNS = "operations/signed_runs.py"
_FINDING = f"{_VERDICTS}:_finding"

FAULTS: Final[list[Fault]] = [
    fault(
        "SG01",
        "the bare hash is signed",
        body(f"{_FILES}:Statement.message", "return self.sha256.encode()"),
    ),
    fault(
        "SG01",
        "a signature of another version of the plan is accepted",
        swap(
            _FINDING,
            "signed != (plan.plan_id, plan.plan_version, plan.sha256)",
            "said.sha256 != plan.sha256",
        ),
    ),
    fault(
        "SG01",
        "a signature of another plan is accepted",
        swap(
            _FINDING,
            "signed != (plan.plan_id, plan.plan_version, plan.sha256)",
            "said.plan_id != plan.plan_id",
        ),
    ),
    fault("SG01", "every signature is right", body("runtime/ed25519.py:verify", "return True")),
    fault(
        "SG02",
        "any trusted key signs in the name of another",
        swap(
            f"{_VERDICTS}:TrustedKeys.candidates",
            "[found] if found is not None else self.unnamed",
            "[*self.named.values(), *self.unnamed]",
        ),
    ),
    fault(
        "SG02",
        "a key of one tenant signs for all",
        swap(
            _FINDING,
            "tenant_id is not None and key.tenants and tenant_id not in key.tenants",
            "False",
        ),
    ),
    fault(
        "SG02",
        "runs are not checked for the tenant of the key",
        swap(
            f"{_RUNS}:_signers",
            "verify_plan(plan, signatures, name, keys, now, tenant_id)",
            "verify_plan(plan, signatures, name, keys, now)",
        ),
    ),
    fault("SG03", "a key expires a moment late", swap(_FINDING, "key.expires <= now", "key.expires < now")),
    fault(
        "SG03",
        "a key that has expired is trusted for what it signed before",
        swap(_FINDING, "key.expires <= now", "key.expires <= said.signed_at"),
    ),
    fault(
        "SG03",
        "a signature expires a moment late",
        swap(_FINDING, "said.expires <= now", "said.expires < now"),
    ),
    fault(
        "SG04",
        "any spelling of a file is read",
        swap(f"{_FILES}:parse_signatures", "write_signatures(found) != ...", "False"),
    ),
    fault(
        "SG04",
        "base64 may leave bits unused",
        swap("access/base64.py:decode_exactly", "b64encode(raw).decode() != text", "False"),
    ),
    fault(
        "SG04",
        "a file may be of any size",
        swap(f"{_FILES}:parse_signatures", "len(content) > MAX_BYTES", "False"),
    ),
    fault(
        "SG05",
        "no tenant requires signatures",
        body(f"{_RUNS}:SigningRules.required", "return False"),
    ),
    fault(
        "SG05",
        "a rerun is not checked",
        swap(
            "operations/start.py:check_signed",
            "request.signatures is None and parts.signing() is None",
            "request.signatures is None and parts.signing() is None or request.original_run_id is not None",
        ),
    ),
    fault(
        "SG05",
        "a run continues with any workflow",
        body("operations/structure.py:_check_signed", "return ()"),
    ),
    fault(
        "SG05",
        "a run that was created earlier starts unsigned",
        body("operations/start.py:check_signed_run", "return"),
    ),
    fault(
        "SG05",
        "other programs start unsigned plans",
        swap(
            "operations/engine_runs.py:EngineRuns._create",
            "(await start_run(...)).run_id",
            "await self._parts.engine().create(request)",
        ),
    ),
    fault(
        "SG05",
        "a worker starts what no key has signed",
        drop(f"{_RUNS}:signed_plan_of", "_signers(...)"),
    ),
    fault(
        "SG05",
        "a dry run does not look at signatures",
        drop("cli/running.py:_show_plan", "_check_signed(request)"),
    ),
    fault(
        "SG06",
        "a signature that is not required is not looked at",
        swap(f"{_RUNS}:signed_request", "signatures is None and not required", "not required"),
    ),
    fault(
        "SG07",
        "who signed is not recorded",
        swap("engines/creation.py:asked_for", "request.signed_by", "()"),
    ),
    fault(
        "SG07",
        "the signatures are not kept",
        swap(
            "engines/creation.py:_create",
            "request.signed_by and request.signatures is not None",
            "False",
        ),
    ),
    fault(
        "SG07",
        "a signed workflow may get other budgets",
        swap("operations/structure.py:replace_workflow", "signed_by and plan != signed", "False"),
    ),
    fault(
        "SG08",
        "the place of a published signature is not looked at",
        swap("runtime/plan_loading.py:PlanLoader.fetch_signatures", "uri + SUFFIX", "uri"),
    ),
    fault(
        "SG08",
        "signatures of another plan are published",
        swap("operations/signing.py:signatures_of", "others or not found", "False"),
    ),
    fault(
        "SG08",
        "publishing again makes another signature",
        body("cli/publish.py:_has_signed", "return False"),
    ),
    fault(
        "SG09",
        "keys that others can read are used",
        swap("files.py:open_regular", "private and mode & _OTHERS", "False"),
    ),
    fault(
        "SG09",
        "only readable keys are refused, not writable ones",
        swap("files.py:open_regular", "mode & _OTHERS", "mode & 0o044"),
    ),
    fault(
        "SG09",
        "a key is overwritten",
        swap("cli/signing.py:_make_key", "write_private(file, pem)", "file.write_bytes(pem)"),
    ),
    fault(
        "SG09",
        "a key of another kind is a traceback",
        drop("runtime/ed25519.py:load_key", "if not isinstance(key, Ed25519PrivateKey): ..."),
    ),
    fault(
        "SG05",
        "a refused signature is not recorded",
        drop(f"{_RUNS}:_refusals_recorded", "await parts.store.record_audit(...)"),
    ),
    fault(
        "SG10",
        "every run loads the package",
        start("operations/start.py:check_signed", "import cryptography"),
    ),
    fault(
        "SG10",
        "a missing package is a traceback",
        body("runtime/ed25519.py:require_library", "pass"),
    ),
]
