"""The topic table, as everything derived from it takes it to be."""

from msgspec import Struct

from headrace_schemas.errors import HeadraceError, UsageError
from headrace_schemas.topics import DAY, EDGES, GROUPS, TOPICS, inputs_of, kept_after_read, partition_key


def test_the_topics_are_those_of_the_design() -> None:
    assert list(TOPICS) == [
        "links.discovered",
        "urls.to_fetch",
        "pages.fetched",
        "fetch.results",
        "pages.parsed",
        "frontier.changelog",
        "frontier.budget",
        "crawl.progress",
        "crawl.control",
        "dead.letters",
    ]
    assert all(name == topic.name for name, topic in TOPICS.items())


def test_only_work_is_read_by_groups_and_all_work_is() -> None:
    for topic in TOPICS.values():
        assert (topic.kind == "work") == bool(topic.readers), topic.name
        assert set(topic.readers) <= set(GROUPS)
        assert topic.producers


def test_every_edge_is_there_once() -> None:
    assert len(EDGES) == len(set(EDGES)) == sum(len(topic.readers) for topic in TOPICS.values())
    assert ("pages.fetched", "storer") in EDGES


def test_the_inputs_of_a_group_are_its_edges() -> None:
    assert inputs_of("frontier") == ("links.discovered", "fetch.results", "frontier.budget")
    assert inputs_of("fetcher") == ("urls.to_fetch",)
    assert inputs_of("parser") == ("pages.fetched",)
    assert inputs_of("storer") == ("pages.fetched", "fetch.results", "pages.parsed")
    assert inputs_of("nobody") == ()


def test_a_time_to_keep_stands_for_the_week_and_shortens_what_is_kept_for_less() -> None:
    work = [topic for topic in TOPICS.values() if topic.kind == "work"]
    assert kept_after_read(0) == {topic.name: topic.keep for topic in work}
    month = kept_after_read(30 * DAY)
    assert (month["pages.fetched"], month["urls.to_fetch"], month["frontier.budget"]) == (30 * DAY, DAY, 0)
    assert set(kept_after_read(60.0).values()) == {60.0, 0}


def test_messages_are_frozen_and_told_apart_by_their_tags() -> None:
    for topic in TOPICS.values():
        tags = [kind.__struct_config__.tag for kind in topic.types]
        assert None not in tags
        assert len(tags) == len(set(tags))
        for kind in topic.types:
            assert issubclass(kind, Struct)
            assert kind.__struct_config__.frozen
            assert not kind.__struct_config__.forbid_unknown_fields  # an older reader passes over newer fields


def test_a_topic_that_mixes_types_does_not_mix_arrays_and_maps() -> None:
    for topic in TOPICS.values():
        assert len({kind.__struct_config__.array_like for kind in topic.types}) <= 1


def test_a_partition_has_a_key_of_its_own() -> None:
    assert partition_key(7) == b"7"


def test_an_error_says_whether_trying_again_can_help() -> None:
    def tree(kind: type[HeadraceError]) -> list[type[HeadraceError]]:
        return [kind, *(below for child in kind.__subclasses__() for below in tree(child))]

    ours = [kind for kind in tree(HeadraceError) if kind.__module__ == HeadraceError.__module__]  # not a service's own
    assert {kind.__name__ for kind in ours if kind.retriable} == {"Unavailable", "LaneLost"}
    assert not UsageError.retriable
