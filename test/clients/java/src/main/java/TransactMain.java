import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Consume, transform, produce, exactly once: each poll's records go to --out in one transaction with their offsets
 * (sendOffsetsToTransaction with the group's metadata). A transaction that fails is aborted and its records are read again, by a new producer
 * (see the quirks in README.md).
 */
public final class TransactMain {
    public static void main(String[] args) throws Exception {
        Kit kit = new Kit("java-transact", args);
        Properties p = new Properties();
        p.put("bootstrap.servers", kit.bootstrap);
        p.put("group.id", kit.group);
        p.put("group.protocol", kit.protocol);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("isolation.level", "read_committed");
        p.put("max.poll.records", "50");
        if (kit.protocol.equals("classic")) {
            p.put("session.timeout.ms", kit.sessionMs);
            p.put("heartbeat.interval.ms", kit.sessionMs / 6);
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            kit.stopped = true;
            consumer.wakeup();
            try {
                closed.await(30, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(kit.topic), new ConsumerRebalanceListener() {
            @Override public void onPartitionsRevoked(Collection<TopicPartition> c) { kit.event("revoked", c.stream().map(TopicPartition::partition).toList()); }
            @Override public void onPartitionsAssigned(Collection<TopicPartition> c) { kit.event("assigned", c.stream().map(TopicPartition::partition).toList()); }
        });
        KafkaProducer<byte[], byte[]> producer = producer(kit);
        try {
            while (!kit.stopped) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) continue;
                try {
                    producer.beginTransaction();
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    for (ConsumerRecord<byte[], byte[]> r : records) {
                        kit.process(r.partition(), r.offset(), r.key(), r.value());
                        producer.send(new ProducerRecord<>(kit.option("out", ""), r.key(), r.value()));
                        offsets.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1, r.leaderEpoch(), ""));
                    }
                    producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                    producer.commitTransaction();
                } catch (KafkaException e) {
                    System.err.println("transaction: " + e);
                    producer = replace(kit, producer);
                    rewind(consumer);
                }
            }
        } catch (WakeupException e) {
            // stopping
        } finally {
            producer.close(Duration.ofSeconds(5));
            consumer.close();
            closed.countDown();
        }
    }

    /** Ends the old producer, which may have kept offsets that it would add to its next transaction. */
    private static KafkaProducer<byte[], byte[]> replace(Kit kit, KafkaProducer<byte[], byte[]> old) {
        try {
            old.abortTransaction();
        } catch (KafkaException e) {
            System.err.println("abort: " + e);
        }
        old.close(Duration.ZERO);
        return producer(kit);
    }

    /** Goes back to what the group has committed, so that the aborted transaction's records come again. */
    private static void rewind(KafkaConsumer<byte[], byte[]> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition tp : consumer.assignment()) {
            OffsetAndMetadata o = committed.get(tp);
            if (o != null) consumer.seek(tp, o);
            else consumer.seekToBeginning(List.of(tp));
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(Kit kit) {
        Properties p = new Properties();
        p.put("bootstrap.servers", kit.bootstrap);
        p.put("transactional.id", kit.group + "-" + kit.pid);
        p.put("transaction.timeout.ms", "4000");
        p.put("linger.ms", "5");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }
}
