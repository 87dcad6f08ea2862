"""Checks before the service starts."""

from collections.abc import Sequence

from podium.nodes.registration.models.model_orchestrator_config import ModelOrchestratorConfig
from podium.operations.parts import Parts
from podium.operations.registration.place import Place
from podium.ports.bus import TopicRefused, Topics


async def check_allowed(parts: Parts, place: Place) -> None:
    """Raises what `Parts.require` raises."""
    await parts.require("run.start", place.tenant_id, records=False)
    await parts.require("run.prune", place.tenant_id, records=False)
    await parts.require_everywhere("store.relay")


async def check_topics(
    topics: Topics, place: Place, config: ModelOrchestratorConfig, *, create: bool
) -> list[str]:
    """Returns those that were created. Raises `TopicRefused` with a command for each that is missing or
    cannot be used.
    """
    missing = await topics.missing(place.topics(config))
    if missing and not create:
        commands = "\n".join(f"  {topics.how_to_create(name)}" for name in missing)
        raise TopicRefused(
            f"{len(missing)} topics do not exist; create them with these commands, or start with --create-topics:\n"
            f"{commands}"
        )
    if missing:
        await topics.create(missing)
    await _check_rights(topics, place, config)
    await _check_times(topics, place.topics_read(config))
    return missing


async def _check_rights(topics: Topics, place: Place, config: ModelOrchestratorConfig) -> None:
    time = config.time_injection.source_event
    ticks = [place.topic(one.topic) for one in config.consumed_events if one.event_type == time]
    commands = await topics.rights_to_give(
        place.topics_read(config), [*ticks, *place.topics_written(config)], place.group
    )
    if commands:
        shown = "\n".join(f"  {command}" for command in commands)
        raise TopicRefused(
            f"{len(commands)} rights are missing; give them to the user with these commands:\n{shown}"
        )


async def _check_times(topics: Topics, names: Sequence[str]) -> None:
    """The time of a tick is compared with that of the bus: a sender with a wrong clock must not determine
    both.
    """
    wrong = await topics.timed_by_senders(names)
    if wrong:
        commands = "\n".join(f"  {topics.how_to_time(name)}" for name in wrong)
        raise TopicRefused(
            f"messages of {len(wrong)} topics have the times of their senders, and the time of the broker is needed; "
            f"change that with these commands:\n{commands}"
        )
