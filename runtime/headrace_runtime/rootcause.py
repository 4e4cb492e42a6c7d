"""Tasks that run side by side fail side by side: which of the errors to show."""

from collections.abc import Iterator

from headrace_schemas.errors import HeadraceError


def root_cause(error: BaseException) -> BaseException:
    """The first error raised on purpose within `error`, if it is a group; otherwise the first of any kind."""
    leaves = list(_leaves(error))
    return next((leaf for leaf in leaves if isinstance(leaf, HeadraceError)), leaves[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error
