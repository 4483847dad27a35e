package peers;

import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One consumer process: it joins, holds its first records back until the line "go", and works until the line "stop". Options: -name value. */
public final class Worker {
    private final Map<String, String> options = new HashMap<>();
    private final Journal journal;
    private final CountDownLatch go = new CountDownLatch(1);
    private volatile boolean stopped;

    public static void main(String[] args) throws Exception { new Worker(args).run(); }

    private Worker(String[] args) throws Exception {
        for (int i = 0; i < args.length; i += 2) options.put(args[i].substring(1), args[i + 1]);
        journal = new Journal(options.get("journal"));
    }

    private void run() throws Exception {
        int concurrency = Integer.parseInt(options.get("concurrency"));
        List<Thread> threads = new ArrayList<>();
        switch (options.get("how")) {
            case "plain" -> threads.add(new Thread(this::plain));
            case "share" -> { for (int i = 0; i < concurrency; i++) threads.add(new Thread(this::share)); }
            case "parallel-key" -> parallel(ProcessingOrder.KEY, concurrency);
            case "parallel-unordered" -> parallel(ProcessingOrder.UNORDERED, concurrency);
            default -> throw new IllegalArgumentException("-how " + options.get("how"));
        }
        threads.forEach(Thread::start);
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null && !line.equals("stop"); ) go.countDown();
        stopped = true;
        go.countDown();
        for (Thread t : threads) t.join(1000); // the group is of no further use: it need not be left in order
        journal.flush();
        Runtime.getRuntime().halt(0);
    }

    private void handle(ConsumerRecord<String, byte[]> record) {
        try {
            go.await();
        } catch (InterruptedException e) {
            return;
        }
        Task task = Task.decode(record.value());
        long start = Task.now();
        task.perform();
        journal.add(task, start, Task.now());
    }

    private void plain() {
        try (var consumer = new KafkaConsumer<String, byte[]>(config("auto.offset.reset", "earliest"))) {
            consumer.subscribe(List.of(options.get("topic")));
            while (!stopped) {
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    if (stopped) return;
                    handle(record);
                }
            }
        }
    }

    private void share() {
        try (var consumer = new KafkaShareConsumer<String, byte[]>(config("share.acknowledgement.mode", "explicit"))) {
            consumer.subscribe(List.of(options.get("topic")));
            while (!stopped) {
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    if (stopped) return;
                    handle(record);
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                }
            }
        }
    }

    private void parallel(ProcessingOrder order, int concurrency) {
        Map<String, Object> config = config("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", false);
        var consumer = new KafkaConsumer<String, byte[]>(config);
        ParallelStreamProcessor<String, byte[]> processor = ParallelStreamProcessor.createEosStreamProcessor(
            ParallelConsumerOptions.<String, byte[]>builder().consumer(consumer).ordering(order).maxConcurrency(concurrency).build());
        processor.subscribe(List.of(options.get("topic")));
        processor.poll(context -> handle(context.getSingleConsumerRecord()));
    }

    private Map<String, Object> config(String name, Object value) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", options.get("bootstrap"), "group.id", options.get("group"),
            "key.deserializer", StringDeserializer.class, "value.deserializer", ByteArrayDeserializer.class, name, value));
        String tuned = options.getOrDefault("config", ""); // name=value,name=value
        for (String setting : tuned.isEmpty() ? new String[0] : tuned.split(",")) {
            String[] parts = setting.split("=", 2);
            config.put(parts[0], parts[1]);
        }
        return config;
    }
}
