"""docs/operations.md: what it says of topics is how they are made, and its links lead somewhere."""

import re
from typing import Any

import pytest
import yaml

from headrace.app import app
from headrace_runtime import config
from headrace_runtime.streams.kafka.topics import configs
from headrace_schemas.topics import DAY, TOPICS
from tests.deploy.compose_file import NEEDED, ROOT, services
from tests.deploy.promql import rules

TEXT = (ROOT / "docs/operations.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """Until the next heading of any level."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def test_what_it_says_of_a_full_kafka_is_how_topics_are_made() -> None:
    said = section("When Kafka's disk is full")
    assert "`retention.bytes` and `retention.ms` are -1" in said
    made = {row.name: configs(row, 1) for row in TOPICS.values()}
    for row in TOPICS.values():
        if row.kind == "work":
            assert (made[row.name]["retention.bytes"], made[row.name]["retention.ms"]) == ("-1", "-1")
            assert f"{int(made[row.name]['segment.bytes']) >> 20} MiB more for each partition" in said
    [limited] = re.findall(r"--entity-name (\S+) --add-config retention\.bytes=", said)
    assert TOPICS[limited].kind == "audit"
    assert f"kept for {TOPICS[limited].keep / DAY:.0f} days" in said
    partitions = int(services(NEEDED)["frontier"]["environment"]["HEADRACE_STREAMS__PARTITIONS"])
    assert f"with {partitions} partitions is {partitions * 64 // 1024} GiB" in said


def test_the_settings_it_shows_are_some_there_are() -> None:
    shown = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert shown
    for text in shown:
        for group, values in yaml.safe_load(text).items():
            for name, value in values.items():
                config.load(None, {f"HEADRACE_{group}__{name}".upper(): str(value)})


@pytest.mark.parametrize("rule", rules("alerts.yml"), ids=lambda rule: rule["alert"])
def test_every_alert_is_told_of_with_what_it_means_and_what_to_do(rule: dict[str, Any]) -> None:
    title = "Alert: " + " ".join(word.lower() for word in re.findall("[A-Z][a-z]+", rule["alert"])[1:])
    meaning, *advice = re.split(r"(?:^|\s)(?:Look|Do|Look and do): ", section(title))
    assert len(meaning.split()) > 5, "what has happened"
    assert advice, "and what to do"
    assert all(len(text.split()) > 3 for text in advice)


def test_every_command_that_a_page_shows_is_one_there_is() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {str(group.name) for group in app.registered_groups}
    for page in ("README.md", "docs/operations.md", "docs/politeness.md", "docs/durability.md"):
        blocks = re.findall(r"```sh\n(.*?)```|`([^`\n]+)`", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        code = "\n".join(block or span for block, span in blocks)
        shown = set(re.findall(r"(?:^|[\s/])headrace ([a-z]\w*)\b(?![.:])", code))
        assert shown, page
        assert shown - known == set(), page


def anchors(text: str) -> set[str]:
    """As GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    file = ROOT / page
    text = file.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (file.parent / path).resolve() if path else file
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there.read_text(encoding="utf-8")), target
