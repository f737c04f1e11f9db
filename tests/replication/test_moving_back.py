"""A replica that is removed from a partition and added again is another replica."""

from contextlib import ExitStack
from pathlib import Path

from testkit.cluster import ClusterProcesses
from testkit.waiting import until

from .test_moving import move
from .writing import Writer, paused


def test_a_replica_that_deleted_its_log_is_not_in_sync_before_it_fetches_again(
    tmp_path: Path,
) -> None:
    """The leader is stopped meanwhile, and sees only the last assignment."""
    with ClusterProcesses(tmp_path, 4) as cluster:
        topic = cluster.create("moved", replicas=1)
        leader = cluster.partition(topic).leader_id
        admin, moved, slow = (one for one in range(4) if one != leader)
        assert move(cluster, topic, [leader, admin]) == 0
        cluster.until_in_sync(topic, 2)
        writer = Writer(cluster)
        writer.write(topic, 100)
        writer.flush()

        def in_sync() -> list[int]:
            return cluster.partition(topic, of=cluster.brokers[admin]).isr_nodes

        with paused(cluster, slow), ExitStack() as moved_is_paused:
            # The slow one cannot join, so this reassignment is not completed.
            assert move(cluster, topic, [leader, admin, moved, slow], of=admin) == 0
            until(lambda: moved in in_sync(), "the new replica is in sync")
            with paused(cluster, leader):
                assert move(cluster, topic, None, of=admin) == 0
                folder = cluster.brokers[moved].data / f"{topic}-0"
                until(lambda: not folder.exists(), "the new replica has deleted its log")
                moved_is_paused.enter_context(paused(cluster, moved))
                assert move(cluster, topic, [leader, admin, moved], of=admin) == 0
            writer.write(topic, 1)
            writer.flush()
            assert sorted(in_sync()) == sorted([leader, admin])
            moved_is_paused.close()
            until(lambda: moved in in_sync(), "the new replica is in sync again")
            assert cluster.log_bytes(moved, topic) == cluster.log_bytes(leader, topic)
        assert writer.failed == []
