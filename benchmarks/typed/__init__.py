"""Typed topics beside untyped ones."""
