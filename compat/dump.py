"""Apache Kafka's DumpLogSegments over Ottla's files: it must read every one without complaint.

The files come from a broker of their own: every codec, rolled segments, an idempotent producer,
deleted records, a kill -9 with its recovery, and a clean stop at the end.
"""

import re
import tempfile
from pathlib import Path

from compat.checks import check, expect, java_output
from testkit.clients.base import CODECS, Message
from testkit.clients.confluent import Confluent
from testkit.clients.java import Java
from testkit.process import BrokerProcess

TOPIC = "dumped"
PARTITIONS = len(CODECS)
ROUNDS = 3
# The smallest segment that Apache Kafka allows.
SETTINGS = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "4096"}
# Complaints go to standard error, which must stay empty, except for these.
FAULTS = ("isvalid: false", "invalid bytes", "Exception", "corrupt")
# The tool says this of every segment but a log's first, Apache Kafka's own included.
NO_FAULT = re.compile(r"Non-consecutive offsets in .*\n(  -1 is followed by \d+\n)(?!  )")


def _fill(broker: BrokerProcess) -> None:
    clients = (Confluent(broker.bootstrap), Java(broker.bootstrap))
    clients[0].create_topic(TOPIC, PARTITIONS)
    for number in range(ROUNDS):
        for partition, codec in enumerate(CODECS):
            messages = [
                Message(
                    f"{number} {n} ".encode() * 40,
                    key=str(n).encode(),
                    headers=(("round", str(number).encode()),),
                    partition=partition,
                )
                for n in range(4_000)
            ]
            clients[number % 2].produce(TOPIC, messages, codec=codec, idempotent=True)


def _dump(*arguments: str) -> str:
    told, complaints = java_output("org.apache.kafka.tools.DumpLogSegments", *arguments)
    complaints = NO_FAULT.sub("", complaints).strip()
    expect(not complaints, f"DumpLogSegments {arguments[0]}: {complaints}")
    for line in told.splitlines():
        expect(not any(word in line for word in FAULTS), f"DumpLogSegments {arguments[0]}: {line}")
    return told


def _check_files(data: Path) -> str:
    folders = sorted(data.glob(f"{TOPIC}-*"))
    expect(len(folders) == PARTITIONS, f"{folders} is not {PARTITIONS} folders")
    files = {
        kind: sorted(path for folder in folders for path in folder.glob(f"*.{kind}"))
        for kind in ("log", "index", "timeindex", "snapshot")
    }
    expect(len(files["log"]) > PARTITIONS, "no segment was rolled")
    expect(len(files["snapshot"]) > 0, "there is no producer snapshot")

    def listed(kind: str) -> str:
        return ",".join(map(str, files[kind]))

    told = _dump("--deep-iteration", "--files", listed("log"))
    records = sum(1 for line in told.splitlines() if line.startswith("| offset:"))
    expect(records == ROUNDS * 4_000 * PARTITIONS, f"{records} records in the logs")
    for kind in ("index", "timeindex"):
        _dump("--files", listed(kind))
        _dump("--index-sanity-check", "--files", listed(kind))
        _dump("--verify-index-only", "--files", listed(kind))
    expect("producerId: " in _dump("--files", listed("snapshot")), "no producer in the snapshots")
    return f"{records:,} records in {len(files['log'])} segments"


@check("dump")
def dump_log_segments_after_a_clean_stop(_: BrokerProcess) -> str:
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "broker", SETTINGS)
        with broker:
            _fill(broker)
            expect(broker.stop() == 0, f"the broker did not stop cleanly: {broker.last_words()}")
        return _check_files(broker.data)


@check("dump")
def dump_log_segments_after_kill_and_recovery(_: BrokerProcess) -> str:
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "broker", SETTINGS)
        with broker:
            _fill(broker)
            broker.kill()
            broker.start()
            end = Confluent(broker.bootstrap).offsets(TOPIC, 0)[1]
            expect(end == ROUNDS * 4_000, f"partition 0 ends at {end} after the recovery")
            expect(broker.stop() == 0, f"the broker did not stop cleanly: {broker.last_words()}")
        return _check_files(broker.data)
