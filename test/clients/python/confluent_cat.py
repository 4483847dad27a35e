"""Reads a topic without a group as `kcat -C -e` does, with the same library: all partitions from an offset to the end of each.

    confluent_cat.py --bootstrap B --topic T --offset beginning|end|-N|N     -N: the last N offsets of each partition

Prints a line {"partition", "offset", "key", "value"} for each record and {"eof": partition, "offset"} for each end that was reached, and
ends when all were. Exit code 1 when that takes longer than 30 s or the library reports an error.
"""
import argparse
import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, TopicPartition

OFFSET_TAIL_BASE = -2000  # librdkafka's RD_KAFKA_OFFSET_TAIL(n) is this minus n
p = argparse.ArgumentParser()
p.add_argument("--bootstrap", required=True)
p.add_argument("--topic", required=True)
p.add_argument("--offset", required=True)
args = p.parse_args()


def offset(text):
    if text in ("beginning", "end"):
        return OFFSET_BEGINNING if text == "beginning" else OFFSET_END
    return OFFSET_TAIL_BASE + int(text) if text.startswith("-") else int(text)


consumer = Consumer({"bootstrap.servers": args.bootstrap, "group.id": "cat", "enable.auto.commit": False, "enable.partition.eof": True,
                     "auto.offset.reset": "earliest"})
left = set(consumer.list_topics(args.topic, 10).topics[args.topic].partitions)
consumer.assign([TopicPartition(args.topic, n, offset(args.offset)) for n in left])
limit = time.monotonic() + 30
while left:
    if time.monotonic() > limit:
        sys.exit(f"no end of the partitions {sorted(left)} within 30 s")
    m = consumer.poll(0.2)
    if m is None:
        continue
    if not m.error():
        line = {"partition": m.partition(), "offset": m.offset(), "key": m.key() and m.key().decode(), "value": m.value() and m.value().decode()}
    elif m.error().code() == KafkaError._PARTITION_EOF:
        left.discard(m.partition())
        line = {"eof": m.partition(), "offset": m.offset()}
    else:
        sys.exit(str(m.error()))
    print(json.dumps(line, separators=(",", ":")), flush=True)
consumer.close()
