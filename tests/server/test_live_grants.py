"""What lasts longer than a request ends with what it was allowed by."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from podium.access.grants import Grant
from podium.access.oidc import GroupRules, OidcRules, grant_of_login
from podium.access.policy import AccessPolicy, TenantRules
from podium.access.roles import Role
from podium.log.times import timestamp
from podium.operations.credentials import grant_of_token
from podium.operations.live_grants import is_live
from podium.operations.sessions import (
    end_session,
    grant_of_session,
    log_in_with_provider,
    log_in_with_token,
)
from podium.stores.memory import MemoryStore
from podium.testing.clock import VirtualClock
from tests.server.test_authentication import World, scenario

OPERATORS: Final = {"ops": GroupRules("acme", frozenset({Role.OPERATOR}))}
POLICY: Final = AccessPolicy(
    {"acme": TenantRules({"ci": frozenset({Role.OPERATOR})})},
    tokens={sha256(text).hexdigest(): "ci" for text in (b"one", b"two")},
)


def rules(groups: Mapping[str, GroupRules] = OPERATORS) -> OidcRules:
    return OidcRules(issuer="https://id.test", client_id="podium", audience="podium", groups=groups)


class Asked:
    """A grant of a request, and whether it is live by now."""

    def __init__(self, world: World) -> None:
        self.store: MemoryStore = world.store
        self.clock: VirtualClock = world.clock
        self.policy: AccessPolicy | None = None
        self.oidc: OidcRules | None = None

    async def is_live(self, grant: Grant | None) -> bool:
        assert grant is not None
        return await is_live(self.store, self.clock, self.policy, self.oidc, grant)

    async def of_session(self, session: Any) -> Grant | None:
        return await grant_of_session(self.store, self.clock, self.policy, self.oidc, session.secret)


def test_logging_out_ends_what_the_session_allowed_and_nothing_else() -> None:
    async def work(world: World) -> None:
        asked, token = Asked(world), await world.token()
        first, second = [await log_in_with_token(asked.store, asked.clock, None, token) for _ in range(2)]
        assert first is not None
        assert second is not None
        grants = [await asked.of_session(one) for one in (first, second)]
        by_token = await grant_of_token(asked.store, asked.clock, None, token)
        await end_session(asked.store, first.secret)
        assert [await asked.is_live(one) for one in (*grants, by_token)] == [False, True, True]

    scenario(work)


def test_a_token_that_the_configuration_no_longer_lists_ends_what_it_allowed_and_no_other_token() -> None:
    async def work(world: World) -> None:
        asked = Asked(world)
        grants = [await grant_of_token(asked.store, asked.clock, POLICY, text) for text in ("one", "two")]
        asked.policy = POLICY
        assert [await asked.is_live(one) for one in grants] == [True, True]
        asked.policy = AccessPolicy(POLICY.tenants, tokens={sha256(b"two").hexdigest(): "ci"})
        assert [await asked.is_live(one) for one in grants] == [False, True]

    scenario(work)


def test_what_a_login_allowed_ends_when_the_configuration_no_longer_lists_its_group() -> None:
    async def work(world: World) -> None:
        asked = Asked(world)
        asked.oidc = rules()
        session = await log_in_with_provider(asked.store, asked.clock, asked.oidc, "ann", ("ops",))
        grants = [await asked.of_session(session), grant_of_login(asked.oidc, "ann", ("ops",))]
        assert [await asked.is_live(one) for one in grants] == [True, True]
        for changed in (rules({"dev": OPERATORS["ops"]}), None):
            asked.oidc = changed
            assert [await asked.is_live(one) for one in grants] == [False, False]

    scenario(work)


def test_nothing_is_live_in_a_closed_tenant() -> None:
    async def work(world: World) -> None:
        asked, token = Asked(world), await world.token()
        asked.policy, asked.oidc = POLICY, rules()
        sessions = [
            await log_in_with_token(asked.store, asked.clock, POLICY, "one"),
            await log_in_with_provider(asked.store, asked.clock, asked.oidc, "ann", ("ops",)),
        ]
        grants = [
            await grant_of_token(asked.store, asked.clock, None, token),
            await grant_of_token(asked.store, asked.clock, POLICY, "one"),
            grant_of_login(asked.oidc, "ann", ("ops",)),
            *[await asked.of_session(one) for one in sessions],
        ]
        assert [await asked.is_live(one) for one in grants] == [True] * 5
        await asked.store.close_tenant("acme", timestamp(asked.clock.now()))
        assert [await asked.is_live(one) for one in grants] == [False] * 5
        assert await grant_of_token(asked.store, asked.clock, POLICY, "two") is None
        assert [await asked.of_session(one) for one in sessions] == [None, None]
        assert await log_in_with_token(asked.store, asked.clock, POLICY, "one") is None
        assert (await log_in_with_provider(asked.store, asked.clock, asked.oidc, "ann", ("ops",))) is None

    scenario(work)
