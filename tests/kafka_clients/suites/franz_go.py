"""franz-go: the tests of its package pkg/kgo.

Long ones (``TestGroupETL``, ``TestTxnEtl``, ``TestShareGroup``) come with ``--tests``.
"""

from __future__ import annotations

from typing import Final

from tests.kafka_clients.suites.go_modules import GO, choosing, run_tests
from tests.kafka_clients.suites.suite import Outcomes, Place, Suite

_PACKAGE: Final = "github.com/twmb/franz-go/pkg/kgo"
_USUAL: Final = (
    "TestConsume|TestIssue|TestPing|TestPool|TestGroupSimple|TestDirect|TestAddRemove|TestPause|TestUnknownGroup|TestMaxVersions"
    "|TestHookPollStart"
)


def _run(place: Place) -> Outcomes:
    environment = {"KGO_SEEDS": place.servers, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "5000"}
    found = run_tests("franz-go", GO, ["-run", place.chosen or _USUAL, _PACKAGE], environment, place.directory / "log")
    return {test: word for test, word in found.items() if "/" not in test}


SUITE: Final = Suite(name="franz-go", run=_run, choosing=choosing)
