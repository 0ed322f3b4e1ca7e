"""Tidelog's version, written only here."""

__version__ = "0.1.0"
