"""A frame of records in, a reply ready to be sent out."""

import msgspec
import zstandard

from headrace_parser.bench import MAX_MESSAGE, Bench
from headrace_parser.frames import Frame, ParsedReply
from headrace_parser.page import ParseLimits, parse
from headrace_schemas import codec, texts
from headrace_schemas.messages import DiscoveredLinks, FetchedPage, NotModified
from headrace_schemas.urls import Canonicaliser, Partitioner
from tests.parser.fetched import fetched, hello, message_of


def replies(
    *values: bytes, merge: bool = True, partitions: int = 1, revision: int = 0, limits: ParseLimits | None = None
) -> list[ParsedReply]:
    bench = Bench(hello(partitions, limits), parse)
    return bench.work(Frame(1, revision, 5.0, merge, list(values)), lambda index: None).pages


def links_of(reply: ParsedReply) -> list[tuple[int, DiscoveredLinks]]:
    return [(partition, codec.decode("links.discovered", value)) for partition, value in reply.links]


def test_links_of_all_pages_come_together_on_the_first_one() -> None:
    one = codec.encode(fetched(b"<a href=/1>", "http://a.test/", depth=2))
    two = codec.encode(fetched(b"<a href=/2>", "http://b.test/", depth=4))
    first, second = replies(one, two)
    [(partition, message)] = links_of(first)
    assert partition == 0
    assert second.links == []
    assert [(link.url, link.depth, link.referrer) for link in message.links] == [
        ("http://a.test/1", 3, "http://a.test/"),
        ("http://b.test/2", 5, "http://b.test/"),
    ]
    assert (message.source, message.run) == ("page", 1)
    assert all(link.key == Canonicaliser().key(link.url) for link in message.links)


def test_links_that_nobody_could_fetch_are_told_by_reason_also_of_a_page_with_no_other() -> None:
    odd = b"<a href=mailto:a@b.test><a href=tel:1><a href=http://u:p@b.test/><a href=http://b.test:99999/>"
    long = b"<a href=/" + b"x" * 3000 + b"><a href=http://[/>"
    one, two = (
        codec.encode(fetched(body, f"http://{name}.test/")) for name, body in zip("ab", (odd, long), strict=True)
    )
    [(partition, message)] = links_of(replies(one, two)[0])
    assert (partition, message.links, message.run) == (0, (), 1)
    assert message.rejected == {"scheme": 2, "userinfo": 1, "bad_port": 1, "too_long": 1, "unparsable": 1}


def test_a_page_that_says_nofollow_has_no_rejected_links_either() -> None:
    value = codec.encode(fetched(b"<meta name=robots content=nofollow><a href=mailto:a@b.test>"))
    assert replies(value)[0].links == []


def test_unmerged_each_page_has_its_own_links() -> None:
    values = [codec.encode(fetched(b"<a href=/x>", f"http://{name}.test/")) for name in "ab"]
    assert [links_of(reply)[0][1].links[0].url for reply in replies(*values, merge=False)] == [
        "http://a.test/x",
        "http://b.test/x",
    ]


def test_links_go_to_the_partition_of_their_target() -> None:
    hosts = [f"host{n}.test" for n in range(30)]
    body = "".join(f"<a href=http://{host}/>x</a>" for host in hosts).encode()
    [reply] = replies(codec.encode(fetched(body)), partitions=8)
    partitioner = Partitioner(8)
    assert {p for p, _ in links_of(reply)} == {partitioner.partition(f"http://{host}/") for host in hosts}
    for partition, message in links_of(reply):
        assert all(partitioner.partition(link.url) == partition for link in message.links)


def test_links_of_different_runs_are_kept_apart() -> None:
    values = [codec.encode(fetched(b"<a href=/x>", run=run)) for run in (1, 2)]
    assert [message.run for _, message in links_of(replies(*values)[0])] == [1, 2]


def test_no_message_of_links_grows_past_its_limit() -> None:
    body = b"".join(b"<a href=/%d%s>" % (n, b"x" * 1_900) for n in range(1_000))
    first, *_ = replies(*[codec.encode(fetched(body, f"http://h{n}.test/")) for n in range(4)])
    assert len(first.links) > 4
    assert all(len(value) < 1.2 * MAX_MESSAGE for _, value in first.links)
    assert sum(len(message.links) for _, message in links_of(first)) == 4_000


def test_the_newer_revision_of_page_and_service_is_passed_on() -> None:
    [old] = replies(codec.encode(fetched(b"<a href=/x>"), 3), revision=7)
    [new] = replies(codec.encode(fetched(b"<a href=/x>"), 9), revision=7)
    assert [codec.revision_of(old.parsed), codec.revision_of(old.links[0][1])] == [7, 7]
    assert [codec.revision_of(new.parsed), codec.revision_of(new.links[0][1])] == [9, 9]


def test_the_text_of_a_page_travels_packed_unless_it_is_short() -> None:
    long = "An überlong text. " * 100
    packed, plain = (message_of(reply) for reply in replies(*(codec.encode(fetched(b)) for b in (long.encode(), b"x"))))
    assert (packed.text, texts.text_of(packed)) == ("", long.strip())
    assert len(packed.packed_text) < len(long) // 10
    assert (plain.text, plain.packed_text) == ("x", b"")


def test_a_304_yields_nothing() -> None:
    [reply] = replies(codec.encode(NotModified(1, "http://a.test/", b"k" * 16, 0.0)))
    assert reply == ParsedReply("not_modified")


def test_a_record_that_cannot_be_read_is_named_and_costs_nobody_else() -> None:
    good = codec.encode(fetched())
    bad, fine = replies(good[:6] + b"\xc1 not msgpack", good)
    assert (bad.verdict, bad.parsed) == ("poison", b"")
    assert bad.why
    assert fine.verdict == "ok"


def test_a_damaged_body_is_dead_lettered_and_still_reported() -> None:
    page = msgspec.structs.replace(fetched(), body=b"not zstd")
    [reply] = replies(codec.encode(page))
    assert (reply.verdict, message_of(reply).verdict) == ("unparsable", "unparsable")
    assert "body" in reply.why


def test_a_bomb_is_not_unpacked() -> None:
    bomb = msgspec.structs.replace(fetched(), body=zstandard.compress(bytes(100 * 1024 * 1024)), size=10)
    [reply] = replies(codec.encode(bomb), limits=ParseLimits(max_bytes=1024 * 1024))
    assert reply.verdict == "unparsable"
    assert "limit" in reply.why


def test_a_body_without_a_named_size_is_unpacked_up_to_the_size_of_the_page() -> None:
    def streamed(body: bytes, size: int) -> FetchedPage:
        packer = zstandard.ZstdCompressor().compressobj()
        return msgspec.structs.replace(fetched(), body=packer.compress(body) + packer.flush(), size=size)

    honest, liar = replies(codec.encode(streamed(b"<p>fine", 7)), codec.encode(streamed(b"<p>" + b"x" * 200_000, 10)))
    assert message_of(honest).text == "fine"
    assert liar.verdict == "unparsable"


def test_the_time_of_parsing_is_that_of_the_service() -> None:
    assert message_of(replies(codec.encode(fetched()))[0]).parsed_at == 5.0
