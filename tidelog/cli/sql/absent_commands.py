"""Dot commands of DuckDB's shell that this one does not have, and what to do instead.

Source: duckdb.org, "Dot commands" of the CLI client, 2.0.
"""

from __future__ import annotations

from typing import Final

_INSTEAD: Final = (
    (
        ("open", "databases", "connect_command", "safe_mode"),
        "The database is in memory; attach 'FILE' opens another one.",
    ),
    (("import", "excel"), "create table NAME as from 'FILE' reads CSV, JSON or Parquet."),
    (("dump", "fullschema", "indexes"), "copy NAME to 'FILE' writes a table; .schema shows its columns."),
    (("shell", "system", "cd", "about", "log"), "Use the shell in which tidelog runs."),
    (("bail", "echo", "changes", "headers"), "A script ends at its first error, and answers have headings."),
    (
        ("separator", "nullvalue", "columns", "rows", "width", "maxwidth", "decimal_sep", "thousand_sep"),
        "coalesce, format and .mode say how values look.",
    ),
    (
        ("large_number_rendering", "explain", "binary", "render_errors", "render_completion"),
        ".mode says how answers look.",
    ),
    (
        ("highlight", "highlight_colors", "highlight_results", "highlight_errors", "display_colors"),
        "There are no colours.",
    ),
    (("constant", "constantcode", "keyword", "keywordcode", "auto_format"), "There are no colours."),
    (("pager",), "tidelog sql 'STATEMENT' | less shows an answer in pages."),
    (
        ("prompt", "multiline", "singleline", "startup_text", "ui_command"),
        "Lines are edited by readline: see ~/.inputrc.",
    ),
)


def instead_of(command: str) -> str | None:
    """Return what to do instead of a command such as ``.import``; None if DuckDB's shell does not have it either."""
    return next((advice for names, advice in _INSTEAD if command.removeprefix(".") in names), None)
