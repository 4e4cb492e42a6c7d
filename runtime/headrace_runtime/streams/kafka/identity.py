"""One member's static id: its group knows a restarted process by it, so that only one process at a time may have it.

Two with the same id, as of a workspace that was copied, would throw each other out in turns for ever, since who comes
takes the place of who is there. So who was thrown out looks whether another has its id now, and if so it ends. It
leaves a mark in its own folder: started again it does not take the place back while the other is there.

aiokafka has neither the question who has an id, nor the way for a static member to leave: both are asked for here.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from aiokafka import AIOKafkaConsumer
from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Bytes, Int16, Int32, Schema, String

from headrace_runtime.streams.kafka.client import answered
from headrace_runtime.streams.kafka.errors import InstanceTaken

_PAUSE = 0.2  # seconds
_LEAVE_SECONDS = 2.0
_TEXT = String("utf-8")


class _Described(Response):  # type: ignore[misc]
    API_KEY = 15
    API_VERSION = 4
    _MEMBER = (
        ("member_id", _TEXT),
        ("group_instance_id", _TEXT),
        ("client_id", _TEXT),
        ("client_host", _TEXT),
        ("member_metadata", Bytes),
        ("member_assignment", Bytes),
    )
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "groups",
            Array(
                ("error_code", Int16),
                ("group", _TEXT),
                ("state", _TEXT),
                ("protocol_type", _TEXT),
                ("protocol", _TEXT),
                ("members", Array(*_MEMBER)),
                ("authorized_operations", Int32),
            ),
        ),
    )


class _DescribeStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 15
    API_VERSION = 4
    RESPONSE_TYPE = _Described
    SCHEMA = Schema(("groups", Array(_TEXT)), ("include_authorized_operations", Boolean))


class _Describe(Request[_DescribeStruct]):  # type: ignore[misc]
    API_KEY: ClassVar[int] = 15

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, struct: type[_DescribeStruct]) -> _DescribeStruct:
        return struct([self._group], False)


class _Left(Response):  # type: ignore[misc]
    API_KEY = 13
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("members", Array(("member_id", _TEXT), ("group_instance_id", _TEXT), ("error_code", Int16))),
    )


class _LeaveStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 13
    API_VERSION = 3
    RESPONSE_TYPE = _Left
    SCHEMA = Schema(("group", _TEXT), ("members", Array(("member_id", _TEXT), ("group_instance_id", _TEXT))))


class _Leave(Request[_LeaveStruct]):  # type: ignore[misc]
    API_KEY: ClassVar[int] = 13

    def __init__(self, group: str, member: str, instance: str) -> None:
        self._group, self._members = group, [(member, instance)]

    def build(self, struct: type[_LeaveStruct]) -> _LeaveStruct:
        return struct(self._group, self._members)


class Identity:
    """`group` and `instance` as the broker knows them. Asked by the consumer's own task, before each join."""

    def __init__(self, admin: AIOKafkaAdminClient, group: str, instance: str, mark: Path) -> None:
        self._admin, self._group, self.instance, self._mark = admin, group, instance, mark
        self._member = ""
        """The last member id the broker gave us: it gives a new one with each join that does not name one."""
        self._thrown_out = mark.exists()
        """To be looked into before the next join."""

    def watch(self, consumer: AIOKafkaConsumer) -> None:
        """Before each join is the one place where nothing is taken from anybody yet."""
        coordinator: Any = consumer._coordinator
        inner = coordinator._do_rejoin_group

        async def rejoin(subscription: Any) -> bool:
            if self._thrown_out or (self._member and not coordinator.member_id):
                try:
                    await self._require_free()
                except kafka.KafkaError as error:
                    if isinstance(error, InstanceTaken):
                        raise
                    await asyncio.sleep(_PAUSE)  # asked again: aiokafka calls until it has joined
                    return False
            try:
                joined: bool = await inner(subscription)
            except kafka.KafkaError:
                if self._member:  # FENCED_INSTANCE_ID, for which aiokafka has no name
                    await self._require_free()
                raise
            self._member = coordinator.member_id or self._member
            return joined

        coordinator._do_rejoin_group = rejoin

    async def leave(self) -> None:
        """At once, what it had goes to others; without this after the session timeout. Once only, at the end."""
        if not self._member:
            return
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await answered(lambda: self._ask(_Leave(self._group, self._member, self.instance)), 1)
        except (kafka.KafkaError, OSError, TimeoutError, NotImplementedError):
            pass  # the session timeout does it

    async def _require_free(self) -> None:
        for member, instance, _, host, *_ in await answered(self._members, 1):
            if instance == self.instance and member != self._member:
                with suppress(OSError):  # a full disk must not hide what is said here
                    self._mark.parent.mkdir(parents=True, exist_ok=True)
                    self._mark.touch()
                raise InstanceTaken(
                    f"another process at {host.lstrip('/')} is {instance} in group {self._group} now, from a copy of"
                    " this workspace: give one of the two a streams.instance of its own"
                )
        with suppress(OSError):
            self._mark.unlink()
        self._thrown_out, self._member = False, ""

    async def _members(self) -> Sequence[Any]:
        answer = await self._ask(_Describe(self._group))
        [(code, _, _, _, _, members, _)] = answer.groups
        if code:
            raise kafka.for_code(code)()
        found: Sequence[Any] = members
        return found

    async def _ask(self, request: Any) -> Any:
        return await self._admin._send_request(request, await self._admin.find_coordinator(self._group))
