"""Headrace: a polite, restartable, horizontally scalable web crawler. The front door: CLI and composition."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("headrace")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0"
