"""PostgreSQL that goes away, stands still or says no: storing waits, says it once, and loses and repeats nothing."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from headrace_schemas.errors import Unavailable, UsageError
from headrace_schemas.settings import IndexSettings, Settings
from headrace_storer.index import open_index
from headrace_storer.sink import Pace
from headrace_storer.views import Asked, PageDetail
from tests.postgres_server import Server
from tests.storer.storer_lane import ListLane
from tests.storer.storer_messages import failed, key_of
from tests.storer.storer_parts import Storer, records_of, site, until

HASTY = Pace(gather=0.001, first_pause=0.01, longest_pause=0.05, silence=1.0)
LONG = Pace(gather=0.001, first_pause=0.01, longest_pause=0.05, silence=600)


def settings_of(url: str, **more: str) -> Settings:
    return Settings(index=IndexSettings(url=make_url(url).update_query_dict(more).render_as_string(False)))


def over_tcp(server: Server, own_url: str) -> Settings:
    """With a password, as an operator has it; two seconds are the least that libpq waits for an answer."""
    return settings_of(server.tcp(make_url(own_url).database or ""), connect_timeout="2")


def contents(settings: Settings, workspace: Path) -> tuple[list[PageDetail | None], list[Asked]]:
    """Every row whole, and every request; the rows of one batch have no order of their own."""
    index = open_index(settings, workspace, create=False)
    try:
        urls = sorted(row.url for row in index.rows())
        assert len(urls) == len(set(urls))
        return [index.get(key_of(url)) for url in urls], list(index.hosts_asked())
    finally:
        index.close()


@contextmanager
def parsed_locked(url: str) -> Iterator[Callable[[], bool]]:
    """Nothing gets into `parsed` meanwhile: a batch stops between its pages and its commit. → whether one does."""
    with closing(psycopg.connect(url)) as holder, closing(psycopg.connect(url, autocommit=True)) as watcher:
        holder.execute("LOCK TABLE parsed IN ACCESS EXCLUSIVE MODE")
        waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'headrace' AND wait_event_type = 'Lock'"
        yield lambda: watcher.execute(waiting).fetchone() is not None


def terminate(server: Server) -> None:
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headrace'")


def no_end(_: Server) -> None:
    pass


OUTAGES = {
    "fast shutdown": (Server.stop, Server.start),
    "kill -9": (Server.kill, Server.start),
    "silence": (Server.pause, Server.resume),
    "terminated session": (terminate, no_end),
}


@pytest.mark.parametrize("kind", OUTAGES)
async def test_an_outage_in_the_middle_of_a_transaction_loses_nothing_and_repeats_nothing(
    kind: str, postgres_server: Server, own_postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    begin, end = OUTAGES[kind]
    settings = over_tcp(postgres_server, own_postgres_url)
    messages = site(60)
    messages += [failed(n, url=f"http://site.test/f{n}", asked_at=1_700_000_000.0 + n) for n in range(20)]

    async with Storer(settings, tmp_path / "pg", pace=HASTY) as storer:
        await storer.serve(ListLane(records_of(messages[:40])))
        lane = ListLane(records_of(messages))
        with parsed_locked(own_postgres_url) as a_batch_waits:
            serving = asyncio.create_task(storer.serve(lane))
            await until(a_batch_waits)
            await asyncio.to_thread(begin, postgres_server)
        if kind != "terminated session":
            await until(lambda: storer.value("crawler_index_retries_total") >= 2, 30)
            assert storer.sink.trouble
            assert lane.done == []
            await asyncio.to_thread(end, postgres_server)
        await serving
        assert storer.sink.trouble == ""
    assert len(lane.done) == len(messages)
    said = [(r.levelname, "nothing is lost" in r.message) for r in caplog.records if "storing" in r.message]
    assert said == [("ERROR", True), ("WARNING", False)]

    async with Storer(Settings(), tmp_path / "sqlite") as storer:
        await storer.serve(ListLane(records_of(messages)))
    rows, asked = contents(settings, tmp_path / "pg")
    assert (len(rows), len(asked)) == (80, 20)
    assert (rows, asked) == contents(Settings(), tmp_path / "sqlite")


async def test_a_stop_during_an_outage_does_not_wait_for_its_end(
    postgres_server: Server, own_postgres_url: str, tmp_path: Path
) -> None:
    """In trouble already, or in a silence that is not known as one yet: that of a server which is stopped for good."""
    settings = over_tcp(postgres_server, own_postgres_url)
    for pace in (HASTY, LONG):
        lane = ListLane(records_of(site(30)))
        async with asyncio.timeout(60):
            async with Storer(settings, tmp_path, pace=pace) as storer:
                with parsed_locked(own_postgres_url) as a_batch_waits:
                    serving = asyncio.create_task(storer.serve(lane))
                    await until(a_batch_waits)
                    postgres_server.pause()
                    try:
                        if pace is HASTY:
                            await until(lambda: storer.sink.in_trouble.is_set())
                        lane.stop(600.0 if pace is HASTY else 0.1)
                        await serving
                        await storer.sink.close()
                    finally:
                        postgres_server.resume()
        assert lane.done == []
    async with Storer(settings, tmp_path) as storer:
        again = ListLane(records_of(site(30)))
        await storer.serve(again)
    assert (len(again.done), len(storer.urls())) == (60, 30)


async def test_a_start_without_postgresql_waits_for_it(
    postgres_server: Server, own_postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = over_tcp(postgres_server, own_postgres_url)
    postgres_server.stop()
    async with Storer(settings, tmp_path) as storer:
        assert "refused" in storer.sink.trouble
        await until(lambda: storer.value("crawler_index_retries_total") >= 3)
        await asyncio.to_thread(postgres_server.start)
        await until(lambda: not storer.sink.trouble)  # although nothing came to be stored
        await storer.serve(ListLane(records_of(site(2))))
        assert len(storer.urls()) == 2
    said = [r.levelname for r in caplog.records if "storing" in r.message]
    assert said == ["ERROR", "WARNING"]
    assert postgres_server.password not in caplog.text


async def test_a_host_that_no_name_server_knows_yet_is_waited_for(tmp_path: Path) -> None:
    settings = settings_of("postgresql://headrace:s3cret@postgres.invalid/crawl")
    async with Storer(settings, tmp_path) as storer:
        assert "postgres.invalid" in storer.sink.trouble
        assert "s3cret" not in storer.sink.trouble


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://postgres:s3cret@{host}/postgres", "password authentication failed"),
        ("postgresql://postgres@{host}/postgres", "no password supplied"),
        ("postgresql://postgres:{password}@{host}/nowhere", 'database "nowhere" does not exist'),
        ("postgresql://nobody:s3cret@{host}/postgres", "authentication failed"),
        ("postgresql://postgres@{host}/postgres?password=s3cret", "password authentication failed"),
        ("postgresql://postgres:{password}@{host}/postgres?sslmod=require", "sslmod"),
        ("postgresql://postgres:{password}@{host}/postgres?sslmode=sometimes", "sslmode"),
        ("postgresql://postgres:s3@cret@{host}/postgres", "%40"),
    ],
)
async def test_who_and_what_the_server_does_not_know_ends_a_start_in_one_line_without_the_password(
    url: str, why: str, postgres_server: Server, tmp_path: Path
) -> None:
    url = url.format(host=f"127.0.0.1:{postgres_server.port}", password=postgres_server.password)
    settings = Settings(index=IndexSettings(url=url))
    with pytest.raises(UsageError) as caught:
        async with Storer(settings, tmp_path):
            pass
    text = str(caught.value)
    assert text.startswith("index.url")
    assert why in text
    assert "\n" not in text
    assert "cret" not in text
    assert postgres_server.password not in text


async def test_a_role_that_may_not_make_tables_ends_a_start(
    postgres_server: Server, own_postgres_url: str, tmp_path: Path
) -> None:
    database = make_url(own_postgres_url).database or ""
    postgres_server.run("DROP ROLE IF EXISTS reader")
    postgres_server.run("CREATE ROLE reader LOGIN PASSWORD 'r3ad'")
    settings = settings_of(postgres_server.tcp(database, "reader", "r3ad"))
    with pytest.raises(UsageError, match="permission denied for schema public"):
        async with Storer(settings, tmp_path):
            pass


async def test_a_password_that_changes_meanwhile_is_waited_for_and_said_once(
    postgres_server: Server, own_postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    database = make_url(own_postgres_url).database or ""
    postgres_server.run("DROP ROLE IF EXISTS keeper")
    postgres_server.run("CREATE ROLE keeper SUPERUSER LOGIN PASSWORD 's3cret'")
    async with Storer(settings_of(postgres_server.tcp(database, "keeper", "s3cret")), tmp_path) as storer:
        await storer.serve(ListLane(records_of(site(3))))
        postgres_server.run("ALTER ROLE keeper PASSWORD 'another'")
        terminate(postgres_server)
        serving = asyncio.create_task(storer.serve(ListLane(records_of(site(5)))))
        await until(lambda: "authentication failed" in storer.sink.trouble)
        await until(lambda: storer.value("crawler_index_retries_total") >= 4)
        postgres_server.run("ALTER ROLE keeper PASSWORD 's3cret'")
        await serving
        assert len(storer.urls()) == 5
    *broken, refused, again = [r.message for r in caplog.records if "storing" in r.message]
    assert len(broken) <= 1, "the connection, for which it is noticed"
    assert refused.startswith("the index refuses the password (index.url)")
    assert 'password authentication failed for user "keeper"' in refused
    assert again.startswith("storing again")
    assert "s3cret" not in caplog.text


async def test_a_server_without_room_is_waited_for(
    postgres_server: Server, own_postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own word for a full volume, from its own error path: SQLSTATE 53100."""
    settings = over_tcp(postgres_server, own_postgres_url)
    async with Storer(settings, tmp_path) as storer:
        await storer.serve(ListLane(records_of(site(2))))
        with psycopg.connect(own_postgres_url, autocommit=True) as admin:
            admin.execute(
                "CREATE FUNCTION full_volume() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
            )
            admin.execute("CREATE TRIGGER no_room BEFORE INSERT ON parsed FOR EACH ROW EXECUTE FUNCTION full_volume()")
            lane = ListLane(records_of(site(6)))
            serving = asyncio.create_task(storer.serve(lane))
            await until(lambda: storer.value("crawler_index_retries_total") >= 3)
            assert "No space left" in storer.sink.trouble
            assert lane.done == []
            admin.execute("DROP TRIGGER no_room ON parsed")
        await serving
        assert len(storer.urls()) == 6
    assert [r.levelname for r in caplog.records if "nothing is lost" in r.message] == ["ERROR"]


def test_readers_say_what_is_wrong_with_the_server(
    postgres_server: Server, own_postgres_url: str, tmp_path: Path
) -> None:
    settings = over_tcp(postgres_server, own_postgres_url)
    with pytest.raises(UsageError, match="no pages yet"):
        open_index(settings, tmp_path, create=False)
    postgres_server.stop()
    with pytest.raises(Unavailable, match="refused") as caught:
        open_index(settings, tmp_path, create=False)
    assert postgres_server.password not in str(caught.value)
