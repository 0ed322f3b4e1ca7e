"""Topics, settings, records deleted, the cluster."""

from __future__ import annotations

from typing import Final

from gateway.kafka.call import Calls, Served
from gateway.kafka.calls import client_quotas, cluster, configs, topics

CALLS: Final[Calls] = {
    19: Served(2, 7, topics.create_topics),
    20: Served(1, 6, topics.delete_topics),
    21: Served(0, 2, topics.delete_records),
    32: Served(1, 4, configs.describe_configs),
    33: Served(0, 2, configs.alter_configs),
    35: Served(1, 4, cluster.describe_log_dirs),
    37: Served(0, 3, topics.create_partitions),
    43: Served(0, 2, cluster.elect_leaders),
    44: Served(0, 1, configs.incremental_alter_configs),
    46: Served(0, 0, cluster.list_partition_reassignments),
    48: Served(0, 1, client_quotas.describe_client_quotas),
    49: Served(0, 1, client_quotas.alter_client_quotas),
    50: Served(0, 0, client_quotas.describe_user_scram_credentials),
    60: Served(0, 2, cluster.describe_cluster),
}
