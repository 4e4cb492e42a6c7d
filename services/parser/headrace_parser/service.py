"""The composition: the only place of the parser that reads settings."""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from headrace_parser.frames import Hello
from headrace_parser.handler import LaneWorker
from headrace_parser.metrics import ParserMetrics
from headrace_parser.page import ParseLimits
from headrace_parser.pool import ParserPool
from headrace_runtime.clock import Clock
from headrace_runtime.service import Parts, Service
from headrace_runtime.streams.loops import Desk, run_pooled
from headrace_runtime.streams.seams import Lane
from headrace_schemas.settings import Settings
from headrace_schemas.topics import PARSER, inputs_of

PARSE = "headrace_parser.page:parse"
WIDTH = 256  # pages of a lane in memory: a few frames for every worker, and no more


def build(settings: Settings, parts: Parts) -> Service:
    pool = pool_of(settings, parts.clock, parts.registry, revision=lambda: parts.control.now.revision)

    async def serve(lane: Lane) -> None:
        await run_pooled(lane, partial(_lane_worker, pool, parts.clock), width=WIDTH)

    def status() -> dict[str, Any]:
        return {"pages under way": pool.busy, "workers": pool.pids}

    return Service(
        PARSER,
        inputs_of(PARSER),
        serve,
        start=pool.start,
        close=pool.close,
        status=status,
        busy=lambda: pool.busy,
    )


def pool_of(
    settings: Settings,
    clock: Clock,
    registry: CollectorRegistry,
    *,
    revision: Callable[[], int] = lambda: 0,
    parse: str = PARSE,
) -> ParserPool:
    """Not started. `parse`: `module:function`, importable in a worker, with the signature of `page.parse`."""
    own = settings.parser
    limits = ParseLimits(own.max_links, own.max_text, settings.fetch.max_bytes, settings.fetch.agent)
    hello = Hello(
        parse,
        limits,
        settings.canonical,
        settings.partitions,
        settings.politeness.key,
        own.memory,
        paths=tuple(map(str, sys.path)),
    )
    return ParserPool(
        hello,
        workers=own.workers or min(4, _cores()),
        deadline=own.deadline,
        clock=clock,
        metrics=ParserMetrics(registry),
        revision=revision,
    )


def _lane_worker(pool: ParserPool, clock: Clock, lane: Lane, desk: Desk) -> LaneWorker:
    return LaneWorker(lane, desk, pool, clock)


def _cores() -> int:
    """Those this process may use: a container may have fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
