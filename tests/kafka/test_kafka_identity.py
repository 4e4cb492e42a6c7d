"""One id, one process: two workspaces never share one, a copied one ends one of the two, and who goes is let go."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from headrace_runtime.slots import claim
from headrace_runtime.streams.kafka.engine import KafkaStreams
from headrace_runtime.streams.kafka.group import KafkaMembership
from headrace_runtime.streams.seams import Send
from headrace_schemas.errors import WorkspaceBusy
from tests.contract.serving import PATIENCE, Reader, read, serving, until
from tests.kafka.place import Place

pytestmark = pytest.mark.kafka

TASKS = "urls.to_fetch"


@dataclass
class Process:
    """As `headrace run fetcher` starts it."""

    streams: KafkaStreams
    membership: KafkaMembership
    running: "asyncio.Task[None]"

    @property
    def owns(self) -> set[int]:
        return {lane.partition for lane in self.membership.lanes}


@asynccontextmanager
async def process(place: Place, workspace: Path) -> AsyncIterator[Process]:
    slot = claim(workspace, "fetcher")
    place = replace(place, folder=slot.path)
    try:
        async with place.opened(instance=slot.member) as streams:
            membership = await streams.join("fetcher", [TASKS], Reader().serve)
            running = asyncio.create_task(membership.run())
            yield Process(streams, membership, running)
            await streams.close()
            await asyncio.gather(running, return_exceptions=True)
    finally:
        slot.release()


def copied(workspace: Path, name: str) -> Path:
    copy = workspace.parent / name
    shutil.copytree(workspace, copy)
    return copy


async def test_two_workspaces_on_one_broker_share_the_work(place: Place, tmp_path: Path) -> None:
    async with process(place, tmp_path / "one") as one:
        await until(lambda: one.owns == {0, 1})
        async with process(place, tmp_path / "other") as other:
            await until(lambda: len(one.owns) == len(other.owns) == 1 and one.owns != other.owns)
            await asyncio.sleep(place.session)
            assert len(one.owns) == len(other.owns) == 1, "and it stays so"


async def test_a_copied_workspace_ends_who_was_there_once_and_for_all(place: Place, tmp_path: Path) -> None:
    async with AsyncExitStack() as copies:
        async with process(place, tmp_path / "one") as one:
            await until(lambda: one.owns == {0, 1})
            copy = await copies.enter_async_context(process(place, copied(tmp_path / "one", "copy")))
            with pytest.raises(WorkspaceBusy, match=r"^another process at 127\.0\.0\.1 .* streams\.instance"):
                await asyncio.wait_for(one.running, PATIENCE)
        await until(lambda: copy.owns == {0, 1})
        async with process(place, tmp_path / "one") as again:
            with pytest.raises(WorkspaceBusy, match=r"streams\.instance"):
                await asyncio.wait_for(again.running, PATIENCE)
        assert copy.owns == {0, 1}, "started again it takes nothing"
    async with process(place, tmp_path / "one") as again:
        await until(lambda: again.owns == {0, 1}, "its place, once the other is gone")


async def test_a_member_whose_session_ended_joins_again(place: Place, tmp_path: Path) -> None:
    """Thrown out by time, not by another: that is no reason to end."""
    async with process(place, tmp_path / "one") as one:
        await until(lambda: one.owns == {0, 1})
        before = one.membership._parts.rebalances._value.get()
        one.membership._parts.consumer._coordinator.reset_generation()
        await until(lambda: one.membership._parts.rebalances._value.get() > before)
        await until(lambda: one.owns == {0, 1})


async def test_who_stops_in_order_leaves_its_partitions_at_once(place: Place, tmp_path: Path) -> None:
    place = replace(place, session=60.0)
    async with process(place, tmp_path / "one") as one:
        async with process(place, tmp_path / "other") as other:
            await until(lambda: len(one.owns) == len(other.owns) == 1)
        await asyncio.wait_for(until(lambda: one.owns == {0, 1}), place.session / 3)


async def test_after_leaving_it_goes_on_where_it_was(place: Place, tmp_path: Path) -> None:
    for word in (b"first", b"second"):
        slot = claim(tmp_path, "fetcher")
        async with place.opened(instance=slot.member) as streams:
            await streams.publish([Send(TASKS, 0, word)])
            assert [record.value for record in await read(streams, "fetcher", [TASKS], 1)] == [word]
        slot.release()


async def test_a_name_taken_by_a_copy_of_the_owner_of_state_is_the_same_line(place: Place, tmp_path: Path) -> None:
    async def idle(lane: object) -> None:
        while lane.stopping is None:  # type: ignore[attr-defined]
            await lane.poll(1, 0.1)  # type: ignore[attr-defined]

    slot = claim(tmp_path / "one", "frontier")
    async with replace(place, folder=slot.path).opened(instance=slot.member) as streams:
        membership = await streams.join("frontier", ["links.discovered"], idle, stateful=True)
        running = asyncio.create_task(membership.run())
        await until(lambda: len(membership.lanes) == 2)
        async with replace(place, folder=tmp_path / "copy").opened(instance=slot.member) as copy:
            async with serving(copy, "frontier", ["links.discovered"], idle, stateful=True) as other:
                with pytest.raises(WorkspaceBusy, match=r"streams\.instance"):
                    await asyncio.wait_for(running, PATIENCE)
                await until(lambda: len(other.lanes) == 2)
    slot.release()
