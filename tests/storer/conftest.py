from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_schemas.settings import IndexSettings, Settings
from headrace_storer.index import Index, open_index


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
