"""What tests, compat, faults and bench share. It imports none of them.

Servers
    process             one `ottla serve` of this checkout: started, killed, started again
    workers             one `ottla serve --workers N`
    cluster             several `ottla serve` over one metadata store
    zookeeper_servers   real ZooKeeper servers, one or a quorum, and faults for them
    kafka               Apache Kafka, for comparison
    server              what servers under measurement have in common: processes, folders, ports
    proxy               TCP ports in front of others, whose network can be cut

Clients
    raw                 the one small Kafka client of the tests: exact bytes, or any message
    probe               one Metadata request, to see when a server is ready
    batches             record batches by hand, right or wrong in any field
    clients/            client libraries behind one interface, so that all prove the same claims
    members             members of a consumer group in processes of their own (`member_program`)
    exactly_once        copiers by transactions (`copier_program`), killed round after round

Tools
    waiting             wait for a condition, with a deadline: the alternative to sleeping
    proc                CPU time and memory of a process tree
    java_runtime        Java, Kafka's jars and our own classes in java/
    spark_runtime       PySpark 4.2 with Spark's Kafka connector, beside this checkout's PySpark
    errors              HarnessError

What starts a process or opens a port ends it, also when a test fails; every wait has a deadline.
"""
