"""The one place where Tidelog's version is written."""

__version__ = "0.1.0"
