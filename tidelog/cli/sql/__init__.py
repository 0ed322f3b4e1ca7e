"""SQL over topics at the command line: topics as tables of DuckDB, the formats of answers, and the shell."""
