import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_schemas.settings import IndexSettings, Settings
from headrace_storer.index import Index, open_index
from tests.storer.postgres_server import Server, fresh_database, programs


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL programs on this machine")
    server = Server(found)
    try:
        server.start()
        yield server
    finally:
        server.delete()


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    given = os.environ.get("HEADRACE_TEST_POSTGRES")
    url = given or request.getfixturevalue("postgres_server").url
    with fresh_database(url) as database:
        yield database


@pytest.fixture
def own_postgres_url(postgres_server: Server) -> Iterator[str]:
    """On the server of this test run: one that may be stopped and started."""
    with fresh_database(postgres_server.url) as database:
        yield database


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    """Settings naming an empty index: every test that takes them runs on both databases."""
    if request.param == "sqlite":
        return Settings()
    return Settings(index=IndexSettings(url=request.getfixturevalue("postgres_url")))


@pytest.fixture
def index(settings: Settings, tmp_path: Path) -> Iterator[Index]:
    opened = open_index(settings, tmp_path, create=True)
    yield opened
    opened.close()
