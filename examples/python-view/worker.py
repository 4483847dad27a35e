"""Works on orders past the topic's number of partitions, with nothing but confluent-kafka: it subscribes to a view of the topic.

    worker.py BOOTSTRAP TOPIC GROUP        for example: worker.py 127.0.0.1:9192 orders.view16 billing

Start up to 16 of them: each gets some of the 16 virtual partitions, and with them some of the keys.
"""
import os
import signal
import sys

from confluent_kafka import Consumer

bootstrap, topic, group = sys.argv[1:4]
stopped = False


def stop(*_):
    global stopped
    stopped = True


def bill(record):
    """The work. Records of one key come here one after the other, in the order in which they were written."""
    key = record.key().decode() if record.key() else "-"
    print(f"{os.getpid()} bills {key} {record.value().decode()} of {record.topic()}[{record.partition()}] at {record.offset()}", flush=True)


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
consumer = Consumer({
    "bootstrap.servers": bootstrap,  # the gateway's address; all else is as with any topic
    "group.id": group,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,  # only what is done is committed, below
})
consumer.subscribe([topic],
                   on_assign=lambda _, ps: print("has", sorted(p.partition for p in ps), file=sys.stderr, flush=True),
                   on_revoke=lambda _, ps: print("gives up", sorted(p.partition for p in ps), file=sys.stderr, flush=True))
while not stopped:
    records = consumer.consume(num_messages=100, timeout=0.5)
    for record in records:
        if record.error():  # a broker that is away, and the like: librdkafka goes on by itself
            print(record.error(), file=sys.stderr, flush=True)
        else:
            bill(record)
    if any(not record.error() for record in records):
        consumer.commit(asynchronous=False)  # after a crash, what came after the last commit comes again
consumer.close()  # leaves the group: the others take over at once
