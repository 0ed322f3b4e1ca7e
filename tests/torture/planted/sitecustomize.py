"""A planted fault: no process that starts with this beside it minds the number that a query has committed last.

``tests/torture --spark --planted`` starts drivers so, and has to find records twice.
"""

from log_format.transactions import job as transaction_job

transaction_job.judge_number = lambda _transactional_id, _number, _last_number: None  # type: ignore[assignment]
