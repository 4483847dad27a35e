import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The kit's producer for KafkaProducer, in several modes one after the other: --mode plain,idempotent,transactional; and read-to-end, a
 * loop over --topic that ends when every position has reached the end offset of its beginning.
 * Prints one line for each mode: {"mode":M,"records":N,"seconds":S} or {"mode":M,"error":TEXT,"seconds":S}.
 */
public final class ProducerMain {
    public static void main(String[] args) {
        Kit kit = new Kit("java-producer", args);
        for (String mode : kit.option("mode", "plain").split(",")) {
            long start = System.nanoTime();
            String result;
            try {
                int n = mode.equals("read-to-end") ? readToEnd(kit) : produce(kit, mode);
                result = "\"records\":" + n;
            } catch (KafkaException | InterruptedException | ExecutionException e) {
                Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
                result = "\"error\":" + Kit.json(cause.toString());
            }
            kit.print("{\"mode\":\"" + mode + "\"," + result + ",\"seconds\":" + (System.nanoTime() - start) / 1e9 + "}");
        }
        System.exit(0);
    }

    private static int produce(Kit kit, String mode) throws InterruptedException, ExecutionException {
        int records = Integer.parseInt(kit.option("records", "100"));
        Properties p = new Properties();
        p.put("bootstrap.servers", kit.bootstrap);
        p.put("enable.idempotence", !mode.equals("plain"));
        p.put("compression.type", kit.option("codec", "none"));
        p.put("delivery.timeout.ms", "30000");
        p.put("request.timeout.ms", "10000");
        p.put("linger.ms", "5");
        if (mode.equals("transactional")) p.put("transactional.id", "kit-" + kit.pid);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            if (mode.equals("transactional")) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < records; i++) {
                sent.add(producer.send(new ProducerRecord<>(kit.topic, "key-" + i % 10, "{\"from\":\"java-" + mode + "\",\"i\":" + i + "}")));
            }
            producer.flush();
            for (Future<RecordMetadata> f : sent) f.get();
            if (mode.equals("transactional")) producer.commitTransaction();
            return records;
        }
    }

    private static int readToEnd(Kit kit) {
        Properties p = new Properties();
        p.put("bootstrap.servers", kit.bootstrap);
        p.put("isolation.level", kit.isolation);
        p.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> all = consumer.partitionsFor(kit.topic).stream().map(i -> new TopicPartition(kit.topic, i.partition())).toList();
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = new HashMap<>(consumer.endOffsets(all));
            int records = 0;
            long limit = System.nanoTime() + 30_000_000_000L;
            while (!ends.isEmpty()) {
                records += consumer.poll(Duration.ofMillis(200)).count();
                ends.entrySet().removeIf(e -> consumer.position(e.getKey()) >= e.getValue());
                if (System.nanoTime() > limit) throw new KafkaException("no end after 30 s: " + ends);
            }
            return records;
        }
    }
}
