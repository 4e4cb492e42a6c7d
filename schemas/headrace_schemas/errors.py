"""The error tree of the whole project. An error says whether trying again can help, and what a user should read.

HeadraceError
├── UsageError            the command or its configuration is wrong: one line, exit code 2
├── FatalError            this process cannot go on; a restart or an operator may help: exit code 1
│   ├── TooNew            a message or workspace written by a newer release
│   ├── LayoutMismatch    partitions, politeness key or canonicaliser differ from those at creation: exit code 2
│   ├── TopicsMissing     the broker has not all of our topics yet
│   ├── WorkspaceBusy     another process holds the workspace
│   ├── OffsetLost        the log no longer has what a group has yet to read
│   └── Fenced            another process owns this partition now
├── Unavailable           a dependency (broker, index, disk) does not answer: wait and try again
├── LaneLost              the last commit of a partition is in doubt: it is opened anew from what is committed
└── Poison                this one message can never be handled: it goes to `dead.letters`
"""


class HeadraceError(Exception):
    """Base of every error raised on purpose."""

    retriable = False


class UsageError(HeadraceError):
    """The command, its arguments or the configuration are wrong."""


class FatalError(HeadraceError):
    """This process cannot go on."""


class TooNew(FatalError):
    """Written by a newer release than this one."""


class LayoutMismatch(FatalError):
    """What was fixed at creation differs from what this process was told."""


class TopicsMissing(FatalError):
    """Not all of our topics are on the broker: nobody has made them yet."""


class WorkspaceBusy(FatalError):
    """Another process holds the workspace."""


class OffsetLost(FatalError):
    """The log no longer holds what a group has yet to read."""


class Fenced(FatalError):
    """Another process owns this partition now."""


class Unavailable(HeadraceError):
    """A dependency does not answer; the same call may work later."""

    retriable = True


class Poison(HeadraceError):
    """A message that can never be handled."""


class LaneLost(HeadraceError):
    """The last commit of this partition is in doubt: drop everything staged and open it anew."""

    retriable = True
