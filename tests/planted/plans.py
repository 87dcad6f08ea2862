"""Violations of the rules about plan references in docs/conformance/execution-semantics.md."""

from typing import Final

from tests.planted.edits import body, drop, swap
from tests.planted.faults import Fault, fault

_LOCATIONS = "plan/locations.py"
_HTTP = "plan_sources/http.py:HttpPlans"
_DECODER = "plan_sources/decoding.py:Decoder"

FAULTS: Final[list[Fault]] = [
    fault(
        "PR01", "every listed host may have any address", body("plan/addresses.py:is_public", "return True")
    ),
    fault(
        "PR01",
        "an address in an unusual spelling is a name",
        swap(f"{_LOCATIONS}:_host", "_is_number(host) and _address_of(host) is None", "False"),
    ),
    fault(
        "PR01",
        "a host with a dot at its end is another host",
        swap(f"{_LOCATIONS}:_host", "host.endswith('.')", "False"),
    ),
    fault(
        "PR01",
        "the list is not asked",
        swap(f"{_LOCATIONS}:locate", "any(place.contains(location) for place in places.allow)", "True"),
    ),
    fault(
        "PR01",
        "a folder allows every name that starts like it",
        swap(f"{_LOCATIONS}:AllowedPlace.contains", "f'{self.folder}/'", "self.folder"),
    ),
    fault(
        "PR01",
        "escaped dots are not seen",
        swap(f"{_LOCATIONS}:_check_path", "octet < 0 or octet in _NEVER_ESCAPED", "octet < 0"),
    ),
    fault("PR01", "a password is taken for a host", swap(f"{_LOCATIONS}:_place", "'@' in written", "False")),
    fault(
        "PR01",
        "loopback is allowed without the setting",
        swap(
            f"{_LOCATIONS}:_check_host",
            "_is_loopback_host(host) and not places.allow_loopback",
            "False",
        ),
        swap(
            f"{_LOCATIONS}:check_address",
            "found.is_loopback and places.allow_loopback and _is_loopback_host(location.place)",
            "found.is_loopback and _is_loopback_host(location.place)",
        ),
    ),
    fault(
        "PR01",
        "links lead out of the file root",
        swap("plan_sources/files.py:PlanFiles._inside", "path.is_relative_to(root)", "True"),
    ),
    fault(
        "PR02",
        "the address is not checked where it is used",
        swap(f"{_HTTP}._answer", "check_address(location, address, places)", "pass"),
    ),
    fault(
        "PR02",
        "a host is resolved a second time after its address was checked",
        swap(
            "runtime/tasks/http_client.py:_CheckedConnections.connect_tcp",
            "for address in addresses: self._check(...)",
            "for address in addresses:\n    self._check(host, address)\naddresses = await self._resolve(host, port)",
        ),
    ),
    fault(
        "PR02",
        "only the first address of a host is checked",
        swap(
            "runtime/tasks/http_client.py:_CheckedConnections.connect_tcp",
            "for address in addresses: self._check(...)",
            "for address in addresses[:1]:\n    self._check(host, address)",
        ),
    ),
    fault(
        "PR02",
        "a redirect is followed wherever it leads",
        swap(
            f"{_HTTP}.fetch",
            "locate(found, places, redirected=True)",
            "Location(found, 'http', 'plans.example.com', 80, '/')",
        ),
    ),
    fault("PR02", "a redirect may leave https", body(f"{_LOCATIONS}:check_redirect", "return")),
    fault(
        "PR03",
        "what is packed is unpacked without a limit",
        swap(f"{_DECODER}.feed", "self._max_bytes + 1 - len(self._content)", "0"),
        swap(f"{_DECODER}.feed", "len(self._content) > self._max_bytes", "False"),
    ),
    fault(
        "PR03",
        "an answer may be of any size",
        swap(f"{_DECODER}.feed", "self._packed > self._max_bytes", "False"),
        swap(f"{_DECODER}.feed", "len(self._content) > self._max_bytes", "False"),
    ),
    fault(
        "PR03",
        "a fetch may take for ever",
        swap(
            "plan_sources/places.py:PlacesOfPlans.fetch",
            "asyncio.timeout(self._max_seconds)",
            "asyncio.timeout(None)",
        ),
    ),
    fault(
        "PR03",
        "the bytes are hashed as they were sent",
        swap(f"{_HTTP}._read", "answer.headers.get('content-encoding', '')", "''"),
    ),
    fault("PR04", "the hash is not compared", body("plan/references.py:check_hash", "return")),
    fault(
        "PR04",
        "a reference may name another plan",
        swap("plan/references.py:verified_plan", "said is not None and said != is_", "False"),
    ),
    fault("PR04", "any spelling of a plan is taken", body("plan/references.py:_check_canonical", "return")),
    fault(
        "PR04",
        "targets of steps are not looked up",
        body("plan/structure.py:_wrong_targets", "yield from ()"),
    ),
    fault(
        "PR04",
        "a plan of any engine is run",
        drop("operations/plans.py:fetch_plan", "check_capabilities(...)"),
    ),
    fault(
        "G34",
        "a plan for another engine is run",
        swap(
            "plan/capabilities.py:_wrong_engine",
            "wanted not in ('any', engine.name)",
            "False",
        ),
    ),
    fault(
        "G20",
        "what an engine lacks is accepted by every plan",
        body("plan/capabilities.py:_accepts", "return True"),
    ),
    fault(
        "PR05",
        "what is published is not compared with what is there",
        swap(
            "plan_sources/places.py:PlacesOfPlans._publish",
            "not written and await self._fetch(location, places) != content",
            "False",
        ),
    ),
    fault(
        "PR05",
        "a file is overwritten",
        swap("plan_sources/files.py:_link", "path.hardlink_to(made)", "made.replace(path)"),
    ),
    fault(
        "PR05",
        "an object is overwritten",
        drop("plan_sources/s3.py:S3Plans.write_new", "mode='create'"),
    ),
    fault(
        "G19",
        "a worker takes the plan that the store has",
        swap("runtime/plan_loading.py:PlanLoader._plan_of", "run.status in NOT_STARTED", "False"),
    ),
    fault(
        "G19",
        "a worker does not verify the plan that the store has",
        swap(
            "runtime/plan_loading.py:PlanLoader._plan_of",
            "actual not in await accepted_hashes(contents, None, run)",
            "False",
        ),
    ),
    fault(
        "G19",
        "a signal about a step is not checked if the plan is lost",
        swap(
            "operations/signals.py:_accepted",
            "plan = await plan(run)",
            "try:\n    plan = await plan(run)\nexcept PodiumError:\n    plan = None",
        ),
    ),
]
