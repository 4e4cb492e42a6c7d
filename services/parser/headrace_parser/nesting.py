"""A page nested beyond reason is cut where it becomes so; one of very many element names, too.

Each start tag looks through the elements that are open: 100,000 `<div>` in half a megabyte take 10 s, and time grows
with the square; so it does with the number of different names. So the tags of a page that has very many are counted
before it is parsed. The count knows no more of HTML than it must: it is for accidents and simple traps; for the others
a worker has its deadline.
"""

import re

MANY = 20_000  # tags up to which nesting does not matter: half a second if all of them were nested
DEEP = 2_048  # open elements; browsers stop at 512
NAMES = 10_000  # of elements that are not flat; HTML has 140

_TAG = re.compile(
    rb"<!--(?:-?>|.*?(?:--!?>|\Z))"
    rb"|<(script|style|textarea|title|iframe|noembed|noframes|xmp)(?=[\s/>]).*?(?:</\1|\Z)"
    rb"|<(/?)([a-z][^\s/>]*)",
    re.IGNORECASE | re.DOTALL,
)
_FLAT = (  # void, or never one in another of its kind
    b"area base br col embed hr img input link meta param source track wbr"
    b" a button caption colgroup dd dt form li nobr optgroup option p rp rt tbody td tfoot th thead tr"
)
_NEVER_DEEP = frozenset(_FLAT.split())


def bounded(text: bytes) -> bytes:
    """`text` up to the tag that would be more than `DEEP` deep, or bring the name that is one too many."""
    if len(text) <= 3 * MANY or text.count(b"<") <= MANY:
        return text
    names: list[bytes] = []
    opened: dict[bytes, int] = {}
    for tag in _TAG.finditer(text):
        name = tag[3]
        if name is None or (name := name.lower()) in _NEVER_DEEP:
            continue
        if not tag[2]:
            names.append(name)
            opened[name] = opened.get(name, 0) + 1
            if len(names) > DEEP or len(opened) > NAMES:
                return text[: tag.start()]
        elif opened.get(name):
            while True:  # an end tag closes all that is open within
                last = names.pop()
                opened[last] -= 1
                if last == name:
                    break
    return text
