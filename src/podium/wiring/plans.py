"""Secrets, signatures and published plans."""

from functools import cache
from typing import TYPE_CHECKING

from podium.configuration import configuration, secret_sources
from podium.wiring.stores import system_clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from podium.access.policy import TrustedKey
    from podium.operations.signed_runs import SigningRules
    from podium.ports.plan_source import PlanSource
    from podium.ports.secrets import SecretLookup
    from podium.runtime.plan_loading import PlanLoader


@cache
def secret_lookup() -> "SecretLookup":
    """Secrets by name. One per process, so that the checks before a run and the run query a source once."""
    from podium.secrets.configured import ConfiguredSecrets

    return ConfiguredSecrets(lambda: secret_sources(None))


def secrets_of_worker() -> "SecretLookup":
    """The same for runs of others: they name no files of this machine."""
    from podium.secrets.configured import ConfiguredSecrets

    return ConfiguredSecrets(lambda: secret_sources(None), reads_files=False)


def signing_rules() -> "SigningRules | None":
    """Which signatures of plans are required; None if the configuration has no rules."""
    access = configuration().access
    if access is None:
        return None
    from podium.operations.signed_runs import SigningRules

    return SigningRules(access.policy, lambda uri: plan_loader().fetch_signatures(uri))


def trusted_keys(content: bytes | None = None, name: str = "") -> "Mapping[str, TrustedKey]":
    """The keys that may sign plans: those listed in the configuration, or in a file with this content."""
    if content is not None:
        from podium.configuration.access_keys import read_keys_file

        return read_keys_file(content, name)
    access = configuration().access
    return access.policy.keys if access is not None else {}


@cache
def plan_source() -> "PlanSource":
    """Published plans, in the places that the configuration allows."""
    from podium.plan.locations import PlanPlaces
    from podium.plan_sources.places import PlacesOfPlans

    return PlacesOfPlans(lambda: configuration().plans or PlanPlaces())


@cache
def plan_loader() -> "PlanLoader":
    """Fetches and verifies published plans; one per process, so that each is fetched once."""
    from podium.log.times import timestamp
    from podium.runtime.plan_loading import PlanLoader

    clock = system_clock()
    return PlanLoader(plan_source(), lambda: timestamp(clock.now()))
