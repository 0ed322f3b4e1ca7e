"""A planted fault: in a process that starts with this beside it, a rewrite loses the first record of what it takes together.

``tests/torture --maintenance --planted`` starts maintenance so, and has to find records missing.
"""

from compaction import rewrite

_whole = rewrite._split_by_partition
rewrite._split_by_partition = lambda records: ((partition, part.slice(1)) for partition, part in _whole(records))
