"""Consume, transform, produce, exactly once, with confluent-kafka (librdkafka).

Up to 50 records go to --out in one transaction with their offsets (send_offsets_to_transaction). A transaction that fails is aborted and
its records are read again; after a fatal error (fenced) the process ends with status 1.
"""
import os
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kit import Kit, librdkafka, log

out = sys.argv[sys.argv.index("--out") + 1]
del sys.argv[sys.argv.index("--out"):sys.argv.index("--out") + 2]
kit = Kit("confluent-transact")
consumer = Consumer({
    **librdkafka(kit.bootstrap), "group.id": kit.group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
    "session.timeout.ms": kit.session_ms, "heartbeat.interval.ms": kit.session_ms // 6, "isolation.level": "read_committed",
})
producer = Producer({**librdkafka(kit.bootstrap), "transactional.id": f"{kit.group}-{os.getpid()}", "transaction.timeout.ms": 4000,
                     "linger.ms": 2, "partitioner": "murmur2_random"})
producer.init_transactions(30)


def retry(call):
    """Calls until there is no retriable error."""
    while True:
        try:
            return call()
        except KafkaException as e:
            if not e.args[0].retriable():
                raise
            log("again:", e)
            time.sleep(0.1)


def rewind():
    assigned = consumer.assignment()
    for p in retry(lambda: consumer.committed(assigned, 10)) if assigned else []:
        consumer.seek(TopicPartition(p.topic, p.partition, p.offset if p.offset >= 0 else OFFSET_BEGINNING))


consumer.subscribe([kit.topic], on_assign=lambda _, ps: kit.event("assigned", [p.partition for p in ps]),
                   on_revoke=lambda _, ps: kit.event("revoked", [p.partition for p in ps]))
while not kit.stopped:
    messages = [m for m in consumer.consume(50, 0.2) if not m.error() or m.error().code() != KafkaError._PARTITION_EOF]
    for m in [m for m in messages if m.error()]:
        log("error:", m.error())
        messages.remove(m)
    if not messages:
        continue
    try:
        producer.begin_transaction()
        offsets = {}
        for m in messages:
            kit.process(m.partition(), m.offset(), m.key(), m.value())
            producer.produce(out, m.value(), m.key())
            offsets[m.partition()] = m.offset() + 1
        positions = [TopicPartition(kit.topic, p, o) for p, o in offsets.items()]
        retry(lambda: producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 10))
        retry(lambda: producer.commit_transaction(10))
    except KafkaException as e:
        log("transaction:", e)
        if e.args[0].fatal():
            sys.exit(1)
        retry(lambda: producer.abort_transaction(10))
        rewind()
consumer.close()
