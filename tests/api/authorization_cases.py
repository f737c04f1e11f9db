"""A request for each check that an API declares: what is granted, and the error it must get."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ottla.api.authorization import Pair
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    share_acknowledge,
    share_fetch,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from testkit.batches import values

TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TXN_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NAME, MISSING, GROUP, TXN = "orders", "not-there", "readers", "writer"

ON_TOPIC, ON_GROUP = ResourceType.TOPIC, ResourceType.GROUP
ON_CLUSTER, ON_TXN = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID


class Case(NamedTuple):
    """A request, the pairs that its client may do, and the error of the reply (None: no error)."""

    key: ApiKey
    version: int
    message: Message
    error: ErrorCode | None
    granted: Sequence[Pair] = ()


def cases(topic_id: UUID) -> list[Case]:
    """All of them; the topic exists and has this id."""
    return [
        *_records(topic_id),
        *_topics(topic_id),
        *_configs(),
        *_cluster(),
        *_tokens(),
        *_groups(),
        *_sharing(topic_id),
        *_transactions(),
    ]


def _records(topic_id: UUID) -> list[Case]:
    batch = bytes(values(b"x"))

    def producing(name: str, **more: object) -> produce.ProduceRequest:
        return produce.ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                produce.TopicProduceData(
                    name=name,
                    partition_data=[produce.PartitionProduceData(index=0, records=batch)],
                )
            ],
            **more,  # type: ignore[arg-type]  # each case names its own
        )

    asks = [fetch.FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    by_name = [fetch.FetchTopic(topic=NAME, partitions=asks)]
    by_id = [fetch.FetchTopic(topic_id=topic_id, partitions=asks)]
    missing = [fetch.FetchTopic(topic=MISSING, partitions=asks)]
    follower = fetch.ReplicaState(replica_id=7, replica_epoch=1)
    listed = [
        list_offsets.ListOffsetsTopic(
            name=NAME, partitions=[list_offsets.ListOffsetsPartition(timestamp=-1)]
        )
    ]
    epochs = [
        offset_for_leader_epoch.OffsetForLeaderTopic(
            topic=NAME,
            partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(leader_epoch=0)],
        )
    ]
    return [
        Case(ApiKey.PRODUCE, 9, producing(NAME), TOPIC_FAILED),
        Case(ApiKey.PRODUCE, 9, producing(MISSING), TOPIC_FAILED),
        Case(
            ApiKey.PRODUCE,
            9,
            _in_transaction(producing(NAME, transactional_id=TXN)),
            TXN_FAILED,
            [(Operation.WRITE, ON_TOPIC)],
        ),
        Case(ApiKey.FETCH, 12, fetch.FetchRequest(topics=by_name, max_bytes=1 << 20), TOPIC_FAILED),
        Case(ApiKey.FETCH, 12, fetch.FetchRequest(topics=missing, max_bytes=1 << 20), TOPIC_FAILED),
        Case(ApiKey.FETCH, 17, fetch.FetchRequest(topics=by_id, max_bytes=1 << 20), TOPIC_FAILED),
        Case(
            ApiKey.FETCH,
            17,
            fetch.FetchRequest(topics=by_id, max_bytes=1 << 20, replica_state=follower),
            TOPIC_FAILED,
            [(Operation.READ, ON_TOPIC)],
        ),
        Case(ApiKey.LIST_OFFSETS, 7, list_offsets.ListOffsetsRequest(topics=listed), TOPIC_FAILED),
        Case(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            4,
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=epochs),
            TOPIC_FAILED,
        ),
        Case(
            ApiKey.DELETE_RECORDS,
            2,
            delete_records.DeleteRecordsRequest(
                topics=[
                    delete_records.DeleteRecordsTopic(
                        name=NAME, partitions=[delete_records.DeleteRecordsPartition(offset=1)]
                    )
                ],
                timeout_ms=1000,
            ),
            TOPIC_FAILED,
        ),
        Case(
            ApiKey.DESCRIBE_PRODUCERS,
            0,
            describe_producers.DescribeProducersRequest(
                topics=[describe_producers.TopicRequest(name=NAME, partition_indexes=[0])]
            ),
            TOPIC_FAILED,
        ),
    ]


def _in_transaction(request: produce.ProduceRequest) -> produce.ProduceRequest:
    part = request.topic_data[0].partition_data[0]
    assert part.records is not None
    changed = bytearray(part.records)
    changed[22] |= 0x10  # the attributes' bit; the CRC is not looked at before the rights are
    part.records = bytes(changed)
    return request


def _topics(topic_id: UUID) -> list[Case]:
    describe = (Operation.DESCRIBE, ON_TOPIC)
    named = [metadata.MetadataRequestTopic(name=NAME)]
    missing = [metadata.MetadataRequestTopic(name=MISSING)]
    by_id = [metadata.MetadataRequestTopic(name=None, topic_id=topic_id)]
    creating = create_topics.CreateTopicsRequest(
        topics=[create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)],
        timeout_ms=1000,
    )
    checking = create_topics.CreateTopicsRequest(
        topics=creating.topics, timeout_ms=1000, validate_only=True
    )
    return [
        Case(ApiKey.METADATA, 12, metadata.MetadataRequest(topics=named), TOPIC_FAILED),
        Case(ApiKey.METADATA, 12, metadata.MetadataRequest(topics=by_id), TOPIC_FAILED),
        Case(
            ApiKey.METADATA,
            12,
            metadata.MetadataRequest(topics=missing, allow_auto_topic_creation=True),
            TOPIC_FAILED,
            [describe],
        ),
        Case(
            ApiKey.METADATA,
            9,
            metadata.MetadataRequest(topics=None, include_cluster_authorized_operations=True),
            None,
        ),
        Case(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name=NAME)],
            ),
            TOPIC_FAILED,
        ),
        Case(ApiKey.CREATE_TOPICS, 7, creating, TOPIC_FAILED),
        Case(ApiKey.CREATE_TOPICS, 7, checking, TOPIC_FAILED, [(Operation.CREATE, ON_CLUSTER)]),
        *(
            Case(
                ApiKey.DELETE_TOPICS,
                6,
                delete_topics.DeleteTopicsRequest(topics=[which], timeout_ms=1000),
                TOPIC_FAILED,
                granted,
            )
            for which in (
                delete_topics.DeleteTopicState(name=NAME),
                delete_topics.DeleteTopicState(name=MISSING),
                delete_topics.DeleteTopicState(name=None, topic_id=topic_id),
            )
            for granted in ([], [describe])
        ),
        Case(
            ApiKey.CREATE_PARTITIONS,
            3,
            create_partitions.CreatePartitionsRequest(
                topics=[create_partitions.CreatePartitionsTopic(name=NAME, count=5)],
                timeout_ms=1000,
            ),
            TOPIC_FAILED,
        ),
    ]


def _configs() -> list[Case]:
    found: list[Case] = []
    for kind, name, error in (
        (2, NAME, TOPIC_FAILED),
        (32, GROUP, GROUP_FAILED),
        (4, "1", CLUSTER_FAILED),
        (8, "1", CLUSTER_FAILED),
        (16, "metrics", CLUSTER_FAILED),
    ):
        found += [
            Case(
                ApiKey.DESCRIBE_CONFIGS,
                4,
                describe_configs.DescribeConfigsRequest(
                    resources=[
                        describe_configs.DescribeConfigsResource(
                            resource_type=kind, resource_name=name
                        )
                    ]
                ),
                error,
            ),
            Case(
                ApiKey.ALTER_CONFIGS,
                2,
                alter_configs.AlterConfigsRequest(
                    resources=[
                        alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name)
                    ]
                ),
                error,
            ),
            Case(
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                1,
                incremental_alter_configs.IncrementalAlterConfigsRequest(
                    resources=[
                        incremental_alter_configs.AlterConfigsResource(
                            resource_type=kind,
                            resource_name=name,
                            configs=[
                                incremental_alter_configs.AlterableConfig(
                                    name="retention.ms", value="1"
                                )
                            ],
                        )
                    ]
                ),
                error,
            ),
        ]
    return found


def _cluster() -> list[Case]:
    reassigned = alter_partition_reassignments.ReassignableTopic(
        name=NAME,
        partitions=[alter_partition_reassignments.ReassignablePartition(replicas=[2])],
    )
    moved = alter_replica_log_dirs.AlterReplicaLogDir(
        path="/elsewhere",
        topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name=NAME, partitions=[0])],
    )
    creation = create_acls.AclCreation(
        resource_type=2,
        resource_name=NAME,
        resource_pattern_type=3,
        principal="User:eve",
        host="*",
        operation=2,
        permission_type=3,
    )
    every_acl: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return [
        Case(ApiKey.LIST_CONFIG_RESOURCES, 1, _list_config_resources(), CLUSTER_FAILED),
        Case(
            ApiKey.DESCRIBE_LOG_DIRS, 4, describe_log_dirs.DescribeLogDirsRequest(), CLUSTER_FAILED
        ),
        Case(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            2,
            alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[moved]),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.ELECT_LEADERS,
            2,
            elect_leaders.ElectLeadersRequest(topic_partitions=None, timeout_ms=1000),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            1,
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[reassigned]),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            0,
            list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.UPDATE_FEATURES,
            1,
            update_features.UpdateFeaturesRequest(
                feature_updates=[
                    update_features.FeatureUpdateKey(feature="group.version", max_version_level=1)
                ]
            ),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.DESCRIBE_CLUSTER,
            1,
            describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True),
            None,
        ),
        Case(
            ApiKey.DESCRIBE_QUORUM,
            2,
            describe_quorum.DescribeQuorumRequest(
                topics=[
                    describe_quorum.DescribeQuorumRequestTopicData(
                        topic_name="__cluster_metadata",
                        partitions=[describe_quorum.DescribeQuorumRequestPartitionData()],
                    )
                ]
            ),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.UNREGISTER_BROKER,
            0,
            unregister_broker.UnregisterBrokerRequest(broker_id=1),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.DESCRIBE_ACLS,
            3,
            describe_acls.DescribeAclsRequest(**every_acl),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.CREATE_ACLS,
            3,
            create_acls.CreateAclsRequest(creations=[creation]),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.DELETE_ACLS,
            3,
            delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter(**every_acl)]),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            0,
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            alter_user_scram_credentials.AlterUserScramCredentialsRequest(
                upsertions=[
                    alter_user_scram_credentials.ScramCredentialUpsertion(
                        name="eve", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
                    )
                ]
            ),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.ALTER_CLIENT_QUOTAS,
            1,
            alter_client_quotas.AlterClientQuotasRequest(
                entries=[
                    alter_client_quotas.AlterClientQuotasRequestEntryData(
                        entity=[
                            alter_client_quotas.EntityData(entity_type="user", entity_name="eve")
                        ],
                        ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=1e9)],
                    )
                ]
            ),
            CLUSTER_FAILED,
        ),
        Case(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            1,
            describe_client_quotas.DescribeClientQuotasRequest(),
            CLUSTER_FAILED,
        ),
    ]


def _tokens() -> list[Case]:
    """The client is eve; the token is alice's."""
    return [
        Case(
            ApiKey.CREATE_DELEGATION_TOKEN,
            3,
            create_delegation_token.CreateDelegationTokenRequest(
                owner_principal_type="User", owner_principal_name="alice"
            ),
            ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ),
        Case(
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            3,
            describe_delegation_token.DescribeDelegationTokenRequest(owners=None),
            None,
        ),
    ]


def _list_config_resources() -> Message:
    return list_config_resources.ListConfigResourcesRequest()


def _sharing(topic_id: UUID) -> list[Case]:
    read = (Operation.READ, ON_GROUP)
    fetching = share_fetch.ShareFetchRequest(
        group_id=GROUP,
        member_id="m",
        max_records=1,
        topics=[
            share_fetch.FetchTopic(topic_id=topic_id, partitions=[share_fetch.FetchPartition()])
        ],
    )
    batch = share_acknowledge.AcknowledgementBatch(acknowledge_types=[1])
    partition = share_acknowledge.AcknowledgePartition(acknowledgement_batches=[batch])
    acknowledging = share_acknowledge.ShareAcknowledgeRequest(
        group_id=GROUP,
        member_id="m",
        share_session_epoch=1,
        topics=[share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[partition])],
    )
    return [
        Case(ApiKey.SHARE_FETCH, 2, fetching, GROUP_FAILED),
        Case(ApiKey.SHARE_FETCH, 2, fetching, TOPIC_FAILED, [read]),
        Case(ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledging, GROUP_FAILED),
        Case(ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledging, TOPIC_FAILED, [read]),
    ]


def _groups() -> list[Case]:
    read = (Operation.READ, ON_GROUP)
    describe = (Operation.DESCRIBE, ON_GROUP)
    committed = [
        offset_commit.OffsetCommitRequestTopic(
            name=NAME, partitions=[offset_commit.OffsetCommitRequestPartition(committed_offset=1)]
        )
    ]
    committing = offset_commit.OffsetCommitRequest(group_id=GROUP, topics=committed)
    fetching = offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group_id=GROUP,
                topics=[offset_fetch.OffsetFetchRequestTopics(name=NAME, partition_indexes=[0])],
            )
        ]
    )
    deleting = offset_delete.OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=NAME, partitions=[offset_delete.OffsetDeleteRequestPartition()]
            )
        ],
    )
    beating = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="AAAAAAAAAAAAAAAAAAAAAA",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[NAME],
        topic_partitions=[],
    )
    return [
        Case(ApiKey.OFFSET_COMMIT, 9, committing, GROUP_FAILED),
        Case(ApiKey.OFFSET_COMMIT, 9, committing, TOPIC_FAILED, [read]),
        Case(ApiKey.OFFSET_FETCH, 9, fetching, GROUP_FAILED),
        Case(ApiKey.OFFSET_FETCH, 9, fetching, TOPIC_FAILED, [describe]),
        Case(ApiKey.OFFSET_DELETE, 0, deleting, GROUP_FAILED),
        Case(ApiKey.OFFSET_DELETE, 0, deleting, GROUP_FAILED, [(Operation.READ, ON_TOPIC)]),
        Case(ApiKey.OFFSET_DELETE, 0, deleting, None, [(Operation.DELETE, ON_GROUP)]),
        Case(
            ApiKey.FIND_COORDINATOR,
            4,
            find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]),
            GROUP_FAILED,
        ),
        Case(
            ApiKey.FIND_COORDINATOR,
            4,
            find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=[TXN]),
            TXN_FAILED,
        ),
        Case(ApiKey.JOIN_GROUP, 9, join_group.JoinGroupRequest(group_id=GROUP), GROUP_FAILED),
        Case(ApiKey.SYNC_GROUP, 5, sync_group.SyncGroupRequest(group_id=GROUP), GROUP_FAILED),
        Case(ApiKey.HEARTBEAT, 4, heartbeat.HeartbeatRequest(group_id=GROUP), GROUP_FAILED),
        Case(ApiKey.LEAVE_GROUP, 5, leave_group.LeaveGroupRequest(group_id=GROUP), GROUP_FAILED),
        Case(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beating, GROUP_FAILED),
        Case(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beating, TOPIC_FAILED, [read]),
        Case(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            1,
            consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[GROUP]),
            GROUP_FAILED,
        ),
        Case(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            1,
            consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[GROUP]),
            TOPIC_FAILED,
            [describe],
        ),
        Case(
            ApiKey.DESCRIBE_GROUPS,
            5,
            describe_groups.DescribeGroupsRequest(groups=[GROUP]),
            GROUP_FAILED,
        ),
        Case(ApiKey.LIST_GROUPS, 4, list_groups.ListGroupsRequest(), None),
        Case(
            ApiKey.DELETE_GROUPS,
            2,
            delete_groups.DeleteGroupsRequest(groups_names=[GROUP]),
            GROUP_FAILED,
        ),
    ]


def _transactions() -> list[Case]:
    write = (Operation.WRITE, ON_TXN)
    initializing = init_producer_id.InitProducerIdRequest
    adding = add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TXN,
        v3_and_below_topics=[
            add_partitions_to_txn.AddPartitionsToTxnTopic(name=NAME, partitions=[0])
        ],
    )
    offsets = add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id=TXN, group_id=GROUP)
    committing = txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=TXN,
        group_id=GROUP,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name=NAME, partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition()]
            )
        ],
    )
    described = describe_transactions.DescribeTransactionsRequest(transactional_ids=[TXN])
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=1,
        topics=[write_txn_markers.WritableTxnMarkerTopic(name=NAME, partition_indexes=[0])],
    )
    return [
        Case(
            ApiKey.INIT_PRODUCER_ID,
            4,
            initializing(transactional_id=TXN, transaction_timeout_ms=1000),
            TXN_FAILED,
        ),
        Case(ApiKey.INIT_PRODUCER_ID, 4, initializing(transactional_id=None), CLUSTER_FAILED),
        Case(ApiKey.ADD_PARTITIONS_TO_TXN, 3, adding, TXN_FAILED),
        Case(ApiKey.ADD_PARTITIONS_TO_TXN, 3, adding, TOPIC_FAILED, [write]),
        Case(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            5,
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                transactions=[
                    add_partitions_to_txn.AddPartitionsToTxnTransaction(transactional_id=TXN)
                ]
            ),
            CLUSTER_FAILED,
        ),
        Case(ApiKey.ADD_OFFSETS_TO_TXN, 4, offsets, TXN_FAILED),
        Case(ApiKey.ADD_OFFSETS_TO_TXN, 4, offsets, GROUP_FAILED, [write]),
        Case(ApiKey.TXN_OFFSET_COMMIT, 4, committing, TXN_FAILED),
        Case(ApiKey.TXN_OFFSET_COMMIT, 4, committing, GROUP_FAILED, [write]),
        Case(
            ApiKey.TXN_OFFSET_COMMIT,
            4,
            committing,
            TOPIC_FAILED,
            [write, (Operation.READ, ON_GROUP)],
        ),
        Case(ApiKey.END_TXN, 4, end_txn.EndTxnRequest(transactional_id=TXN), TXN_FAILED),
        Case(
            ApiKey.WRITE_TXN_MARKERS,
            1,
            write_txn_markers.WriteTxnMarkersRequest(markers=[marker]),
            CLUSTER_FAILED,
        ),
        Case(ApiKey.DESCRIBE_TRANSACTIONS, 0, described, TXN_FAILED),
        Case(ApiKey.DESCRIBE_TRANSACTIONS, 0, described, None, [(Operation.DESCRIBE, ON_TXN)]),
        Case(ApiKey.LIST_TRANSACTIONS, 1, list_transactions.ListTransactionsRequest(), None),
    ]
