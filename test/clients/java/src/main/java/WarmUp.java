import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** Loads the clients' classes without a broker, so that `setup` can archive them and later starts are quick. */
public final class WarmUp {
    public static void main(String[] args) {
        Properties p = new Properties();
        p.put("bootstrap.servers", "127.0.0.1:1");
        p.put("group.id", "warm-up");
        p.put("application.id", "warm-up");
        p.put("state.dir", System.getProperty("java.io.tmpdir") + "/kit-warm-up-" + ProcessHandle.current().pid());
        for (String protocol : new String[] {"classic", "consumer"}) {
            p.put("group.protocol", protocol);
            new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer()).close();
        }
        p.remove("group.protocol");
        new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer()).close();
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("none").groupByKey().count().toStream().to("counts");
        try (KafkaStreams streams = new KafkaStreams(builder.build(), p)) {
            streams.cleanUp();
        }
        System.exit(0);
    }
}
