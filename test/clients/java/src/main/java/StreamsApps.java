import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams applications that read --topic, several in one process: --apps KIND,KIND,... Each has the application id GROUP-KIND and
 * writes to the topic GROUP-KIND-out, which exists already.
 *
 * copy        each record, stateless
 * copy-group  the same with the Streams group protocol (group.protocol=streams)
 * count       the number of records of each key so far, as text, from a store
 * global      nothing; prints {"app":"global","table":{key:value}} of a GlobalKTable of --topic when it runs
 * join-MS     an inner join over all time with --other, max.task.idle.ms=MS (join-0, join-2000, join--1): "LEFT|RIGHT"
 * eos         each record, with exactly_once_v2, and its count from a store: "COUNT|VALUE"
 *
 * Prints {"app":KIND,"event":"running"} when an application runs and {"app":KIND,"event":"error"} when it died.
 * --threads of each application, default 1. Runs until SIGTERM.
 */
public final class StreamsApps {
    private static Kit kit;

    public static void main(String[] args) throws Exception {
        kit = new Kit("streams-apps", args);
        CountDownLatch stop = new CountDownLatch(1), closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stop.countDown();
            try {
                closed.await(30, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        Path state = Files.createTempDirectory("kit-streams");
        List<KafkaStreams> apps = new ArrayList<>();
        for (String kind : kit.option("apps", "copy").split(",")) apps.add(start(kind, state));
        stop.await();
        List<Thread> closing = new ArrayList<>();
        for (KafkaStreams s : apps) {
            Thread t = new Thread(() ->
                s.close(CloseOptions.timeout(Duration.ofSeconds(20)).withGroupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP)));
            t.start();
            closing.add(t);
        }
        for (Thread t : closing) t.join();
        try (var files = Files.walk(state)) {
            files.sorted(Comparator.reverseOrder()).forEach(f -> f.toFile().delete());
        }
        closed.countDown();
    }

    private static KafkaStreams start(String kind, Path state) {
        String id = kit.group + "-" + kind;
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, kit.bootstrap);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.parseInt(kit.option("threads", "1")));
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        p.put(StreamsConfig.STATE_DIR_CONFIG, state.resolve(kind).toString());
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // each change of a count goes out
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        p.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        p.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 100);
        if (kind.equals("copy-group")) {
            p.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        } else {
            p.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), kit.sessionMs);
            p.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), kit.sessionMs / 6);
        }
        if (kind.equals("eos")) {
            p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
            p.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 4000);
        }
        StreamsBuilder b = new StreamsBuilder();
        String out = id + "-out";
        if (kind.startsWith("join-")) {
            p.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, Long.parseLong(kind.substring(5)));
            KStream<String, String> other = b.stream(kit.option("other", ""));
            b.<String, String>stream(kit.topic).join(other, (left, right) -> left + "|" + right,
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofHours(6), Duration.ofHours(6)),
                StreamJoined.with(Stores.inMemoryWindowStore("left", Duration.ofHours(18), Duration.ofHours(12), true),
                    Stores.inMemoryWindowStore("right", Duration.ofHours(18), Duration.ofHours(12), true))).to(out);
        } else if (kind.equals("global")) {
            b.globalTable(kit.topic, Materialized.<String, String>as(Stores.inMemoryKeyValueStore("global")));
        } else if (kind.equals("count")) {
            b.<String, String>stream(kit.topic).groupByKey().count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
                .toStream().mapValues(String::valueOf).to(out);
        } else if (kind.equals("eos")) {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("counts"), Serdes.String(), Serdes.Long()));
            b.<String, String>stream(kit.topic).process(Counting::new, "counts").to(out);
        } else {
            b.stream(kit.topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray())).to(out, Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        }
        KafkaStreams s = new KafkaStreams(b.build(), p);
        s.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        CountDownLatch once = new CountDownLatch(1);
        s.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.ERROR) kit.print("{\"app\":\"" + kind + "\",\"event\":\"error\"}");
            if (now != KafkaStreams.State.RUNNING || once.getCount() == 0) return;
            once.countDown();
            if (kind.equals("global")) table(s);
            kit.print("{\"app\":\"" + kind + "\",\"event\":\"running\"}");
        });
        // A GlobalKTable is read to its end inside start, so applications are started beside each other.
        Thread starter = new Thread(s::start, "start-" + kind);
        starter.setDaemon(true);
        starter.start();
        return s;
    }

    private static void table(KafkaStreams s) {
        TreeMap<String, String> table = new TreeMap<>();
        var store = s.store(StoreQueryParameters.fromNameAndType("global", QueryableStoreTypes.<String, String>keyValueStore()));
        try (var all = store.all()) {
            all.forEachRemaining(e -> table.put(e.key, e.value));
        }
        StringBuilder line = new StringBuilder("{\"app\":\"global\",\"table\":{");
        table.forEach((k, v) -> line.append(line.charAt(line.length() - 1) == '{' ? "" : ",").append(Kit.json(k)).append(':').append(Kit.json(v)));
        kit.print(line + "}}");
    }

    /** Counts the records of each key; records without a key all count as one key of their task. */
    private static final class Counting extends ContextualProcessor<String, String, String, String> {
        private KeyValueStore<String, Long> counts;

        @Override public void init(ProcessorContext<String, String> context) {
            super.init(context);
            counts = context.getStateStore("counts");
        }

        @Override public void process(Record<String, String> r) {
            String key = r.key() == null ? "" : r.key();
            Long count = counts.get(key);
            count = count == null ? 1 : count + 1;
            counts.put(key, count);
            kit.work();
            context().forward(r.withValue(count + "|" + r.value()));
        }
    }
}
