"""A crawl that starts or ends holds its workspace and does not answer: neither it nor who asks may fail over that."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace import socket
from headrace.compose import opened
from headrace.workspace import Workspace
from headrace_schemas.errors import WorkspaceBusy
from headrace_schemas.settings import Settings

STATUS = {"do": "status"}


@pytest.fixture
async def workspace(tmp_path: Path) -> Workspace:
    place = Workspace(tmp_path / "ws")
    async with opened(Settings(), place, create=True):
        pass
    return place


async def looked(place: Workspace) -> dict[str, Any]:
    async with opened(Settings(), place, create=False):
        return {"by": "itself"}


async def answered(request: dict[str, Any]) -> dict[str, Any]:
    return {"by": "the crawl"}


async def test_a_crawl_waits_for_a_command_that_looks_and_is_not_turned_away(workspace: Workspace) -> None:
    begun = asyncio.Event()

    async def crawl() -> None:
        begun.set()
        async with opened(Settings(), workspace, create=True):
            pass

    async with opened(Settings(), workspace, create=False):
        starting = asyncio.create_task(crawl())
        await begun.wait()
        await asyncio.wait({starting}, timeout=0.3)
        assert not starting.done()
    await asyncio.wait_for(starting, 30)


async def test_a_crawl_is_turned_away_at_once_by_one_that_runs(workspace: Workspace) -> None:
    server = socket.ControlServer(workspace.socket, answered)
    async with opened(Settings(), workspace, create=True):
        await server.start()
        with pytest.raises(WorkspaceBusy, match="in use"):
            async with asyncio.timeout(4.0), opened(Settings(), workspace, create=True):
                pass
        await server.close()


async def test_who_asks_while_a_crawl_starts_is_answered_by_it(workspace: Workspace) -> None:
    server = socket.ControlServer(workspace.socket, answered)
    async with opened(Settings(), workspace, create=True):
        asking = asyncio.create_task(socket.ask_or(workspace.socket, STATUS, lambda: looked(workspace), 30.0))
        await asyncio.wait({asking}, timeout=0.3)
        assert not asking.done()
        await server.start()
        assert await asking == {"by": "the crawl"}
        await server.close()


async def test_who_asks_while_a_crawl_ends_finds_out_alone(workspace: Workspace) -> None:
    async with opened(Settings(), workspace, create=True):
        asking = asyncio.create_task(socket.ask_or(workspace.socket, STATUS, lambda: looked(workspace), 30.0))
        await asyncio.wait({asking}, timeout=0.3)
        assert not asking.done()
    assert await asking == {"by": "itself"}


async def test_after_a_while_the_reason_is_told_instead(workspace: Workspace) -> None:
    async with opened(Settings(), workspace, create=True):
        with pytest.raises(WorkspaceBusy, match=r"a crawl holds .*ws .*ask again in a moment"):
            await socket.ask_or(workspace.socket, STATUS, lambda: looked(workspace), 0.2)
