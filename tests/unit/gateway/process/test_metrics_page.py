"""The page of a supervisor: the samples of all workers, so that Prometheus takes it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from gateway.process.metrics_page import merge_pages

PAGE = """\
# HELP up_seconds Since the start.
# TYPE up_seconds gauge
up_seconds 3.5
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{route="/v1/topics/{topic}",note="a \\"b\\" } c"} 7.0
requests_total{route="/healthz",note=""} 1e+06
"""


def test_each_sample_says_whose_it_is() -> None:
    """Families are named once; values and other labels stay as they were, whatever characters they have."""
    families = {
        family.name: family
        for family in text_string_to_metric_families(merge_pages({1: PAGE, 0: PAGE.replace("7.0", "8")}))
    }
    assert {name: family.type for name, family in families.items()} == {"up_seconds": "gauge", "requests": "counter"}
    found = {
        (sample.labels["worker"], sample.labels["route"]): (sample.labels["note"], sample.value)
        for sample in families["requests"].samples
    }
    assert found == {
        ("0", "/v1/topics/{topic}"): ('a "b" } c', 8.0),
        ("1", "/v1/topics/{topic}"): ('a "b" } c', 7.0),
        ("0", "/healthz"): ("", 1e6),
        ("1", "/healthz"): ("", 1e6),
    }
    assert merge_pages(dict.fromkeys(range(3), PAGE)).count("# TYPE requests_total ") == 1


def test_a_worker_without_a_page_is_left_out() -> None:
    """Nothing is made up for it."""
    assert merge_pages({}) == ""
    assert 'worker="2"' in merge_pages({2: PAGE})
