"""Leadership goes back to the preferred replicas by itself."""

from pathlib import Path

from testkit.cluster import ClusterProcesses
from testkit.waiting import until


def test_a_broker_that_is_back_leads_again_what_it_should(tmp_path: Path) -> None:
    settings = {"leader.imbalance.check.interval.seconds": "1"}
    with ClusterProcesses(tmp_path, 2, settings) as cluster:
        topic = cluster.create("balanced", partitions=4, replicas=2)
        preferred = {
            each.partition_index: each.replica_nodes[0]
            for each in cluster.metadata(topic).topics[0].partitions
        }
        assert set(preferred.values()) == {0, 1}
        cluster.kill(1)
        until(
            lambda: (
                {each.leader_id for each in cluster.metadata(topic).topics[0].partitions} == {0}
            ),
            "the other one leads all",
        )
        cluster.start(1)
        until(
            lambda: (
                {
                    each.partition_index: each.leader_id
                    for each in cluster.metadata(topic).topics[0].partitions
                }
                == preferred
            ),
            "the preferred ones lead",
        )
