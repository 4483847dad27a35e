"""The kit's producer for confluent-kafka (librdkafka), in several modes one after the other: --mode plain,idempotent,transactional.

Prints one line for each mode: {"mode":M,"records":N,"seconds":S} or {"mode":M,"error":TEXT,"seconds":S}.
"""
import argparse
import json
import os
import time

from confluent_kafka import KafkaException, Producer

p = argparse.ArgumentParser()
p.add_argument("--bootstrap", required=True)
p.add_argument("--topic", required=True)
p.add_argument("--mode", default="plain")
p.add_argument("--records", type=int, default=100)
p.add_argument("--codec", default="none")
o = p.parse_args()


def produce(mode):
    config = {"bootstrap.servers": o.bootstrap, "partitioner": "murmur2_random", "compression.type": o.codec, "linger.ms": 5,
              "enable.idempotence": mode != "plain", "delivery.timeout.ms": 30000}
    if mode == "transactional":
        config["transactional.id"] = f"kit-python-{os.getpid()}"
    producer, errors = Producer(config), []
    if mode == "transactional":
        producer.init_transactions(20)
        producer.begin_transaction()
    for i in range(o.records):
        producer.produce(o.topic, json.dumps({"from": f"confluent-kafka-{mode}", "i": i}), f"key-{i % 10}",
                         on_delivery=lambda e, _: e and errors.append(e))
    left = producer.flush(30)
    if mode == "transactional":
        producer.commit_transaction(20)  # first: after a refusal it says why, the records only that they were purged
    if errors or left:
        raise KafkaException(errors[0] if errors else f"{left} records are not delivered")


for mode in o.mode.split(","):
    start, line = time.monotonic(), {"mode": mode}
    try:
        produce(mode)
        line["records"] = o.records
    except KafkaException as e:
        line["error"] = str(e)
    print(json.dumps({**line, "seconds": time.monotonic() - start}), flush=True)
