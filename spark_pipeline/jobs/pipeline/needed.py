"""What a pipeline is needed for: a topic with a schema has typed columns without one.

Checks in SQL and aggregates are a pipeline's. Columns made of JSON alone are the topic's own, in the commit that acknowledges
the record, and in no second table.
"""

from __future__ import annotations

from log_format.topic.config import TopicConfig
from spark_pipeline.jobs.pipeline.settings import Settings


def advice(settings: Settings, config: TopicConfig) -> str | None:
    """Return what the operator should know about this pipeline; None if it does what its topic can't do.

    Args:
        settings: the pipeline's.
        config: the topic's settings.
    """
    topic, subject = settings.topic, config.subjects.value
    extras = [what for what, used in (("checks", settings.checks), ("aggregates", settings.gold)) if used]
    if subject and not extras:
        return (
            f"This pipeline is not needed: topic {topic} has the schema {subject}, so its own table has typed columns as soon as "
            f"a record is acknowledged (select data.* of {settings.store}/topics/{topic}). Stop it and query that table; "
            "data.on.error says what becomes of invalid records (reject, mark, dead-letter). See docs/typed-topics.md."
        )
    if subject:
        return (
            f"Topic {topic} has the schema {subject}: its own table has typed columns already (data.*), and silver copies them. "
            f"The pipeline is still needed for its {' and '.join(extras)}."
        )
    if not extras:
        return (
            f"This pipeline only makes columns of JSON. A schema of topic {topic} does that without a second table: 'tidelog "
            f"schema register {topic}-value FILE', then 'tidelog topic alter {topic} --value-schema {topic}-value --backfill'. "
            "New records are checked before they are acknowledged, and older ones get columns, too. See docs/typed-topics.md."
        )
    return None
