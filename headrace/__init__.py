"""Headrace: a polite, restartable, horizontally scalable web crawler. The front door: CLI and composition."""


def __getattr__(name: str) -> str:
    """`__version__`, looked up when asked for: that takes longer than all else that a command imports first."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("headrace")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0"
