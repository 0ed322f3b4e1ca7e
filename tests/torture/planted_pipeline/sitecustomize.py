"""A planted fault: in a process that starts with this beside it, a pipeline does not name what it writes.

Neither silver nor the topic of dead letters then knows a micro-batch that comes again. ``tests/torture --pipeline --planted``
starts drivers so, and has to find rows and dead letters twice.
"""

import sys
from typing import Any

# Spark's own Python processes start with this beside them, too; they decide nothing and should start as fast as ever.
if "spark_pipeline.jobs.pipeline" in sys.orig_argv:
    from log_format.transactions import job as transaction_job
    from spark_pipeline.jobs.pipeline import silver

    transaction_job.judge_number = lambda _transactional_id, _number, _last_number: None  # type: ignore[assignment]

    def _write_again(fitting: Any, path: str, **named: Any) -> None:
        note = f'{{"batch": {named["batch_id"]}}}'
        fitting.write.format("delta").mode("append").option("userMetadata", note).save(path)

    silver.write = _write_again
