"""placeholder"""

DOCS_PAGE = b"<!doctype html><title>Tidelog</title>"
