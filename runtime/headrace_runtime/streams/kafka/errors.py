"""aiokafka's errors → ours, at the border. Nothing outside this folder sees a KafkaError."""

from aiokafka import errors as kafka

from headrace_schemas.errors import FatalError, Fenced, HeadraceError, OffsetLost, Unavailable, WorkspaceBusy

_FENCED = (kafka.ProducerFenced, kafka.InvalidProducerEpoch)
_TOO_LARGE = (kafka.MessageSizeTooLargeError, kafka.RecordListTooLargeError, kafka.RecordTooLargeError)
_MISSING = (kafka.UnknownTopicOrPartitionError,)
_REFUSED = (
    kafka.TopicAuthorizationFailedError,
    kafka.GroupAuthorizationFailedError,
    kafka.ClusterAuthorizationFailedError,
    kafka.TransactionalIdAuthorizationFailed,
)
_TRANSIENT = (kafka.KafkaConnectionError, kafka.KafkaTimeoutError, kafka.RequestTimedOutError, kafka.CommitFailedError)


class InstanceTaken(kafka.KafkaError):  # type: ignore[misc]
    """Of ours, for a way through aiokafka's own tasks: only its own kind of error gets out of them."""


def translate(error: BaseException, doing: str) -> HeadraceError:
    """`doing` says what was attempted, for the one line a user reads. Whether a retry can help is in the class."""
    if isinstance(error, HeadraceError):
        return error
    reason = f"{doing}: {_text(error)}"
    if isinstance(error, InstanceTaken):
        return WorkspaceBusy(error.args[0])  # `str` of any KafkaError begins with the name of its class
    if isinstance(error, _FENCED):
        return Fenced(reason)
    if isinstance(error, kafka.OffsetOutOfRangeError):
        return OffsetLost(f"{doing}: the log no longer holds {_text(error)}")
    if isinstance(error, _MISSING):
        return FatalError(f"{reason}: run: headrace topics create")
    if isinstance(error, _TOO_LARGE):
        return FatalError(reason)
    if isinstance(error, (TimeoutError, OSError, *_TRANSIENT)) or getattr(error, "retriable", False):
        return Unavailable(reason)
    return FatalError(reason)


def hopeless(error: BaseException) -> bool:
    """The same would come of the next try: opening a lane again would only go round in circles."""
    return isinstance(error, (*_TOO_LARGE, *_MISSING, *_REFUSED))


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
