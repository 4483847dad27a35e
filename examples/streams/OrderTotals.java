import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * What each customer has ordered in all, exactly once, by more tasks than the topic orders has partitions.
 *
 *   java -cp 'lib/*' OrderTotals.java BOOTSTRAP VIEW CUSTOMERS TOTALS APPLICATION STATE-DIR
 *
 * VIEW is a view of the orders (key: customer, value: an amount), such as orders.view8. CUSTOMERS is a real topic (key: customer, value: name) with as many partitions as
 * the view. TOTALS exists, too.
 */
public final class OrderTotals {
    public static void main(String[] args) {
        String bootstrap = args[0], view = args[1], customers = args[2], totals = args[3];
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap); // the gateway: all else is as with any topic
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[4]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[5]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 4); // in this process; more processes share the tasks
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        // A view has one task for each virtual partition. The two inputs of a join have to have the same number of them, and the same keys in each: a record of the view is where
        // Kafka's default partitioner would have put it in a topic with so many partitions, so both are so.
        KTable<String, String> names = builder.table(customers, Consumed.with(Serdes.String(), Serdes.String()));
        builder.stream(view, Consumed.with(Serdes.String(), Serdes.String()))
            .mapValues(amount -> Long.parseLong(amount))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
            .reduce(Long::sum, Materialized.as("totals")) // a store for each task, with a changelog topic that Streams makes
            .toStream()
            .join(names, (total, name) -> name + ": " + total, Joined.with(Serdes.String(), Serdes.Long(), Serdes.String()))
            .to(totals, Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                var threads = streams.metadataForLocalThreads().stream().filter(t -> !t.activeTasks().isEmpty()).toList();
                System.out.println(threads.stream().mapToInt(t -> t.activeTasks().size()).sum() + " tasks on " + threads.size() + " threads");
            }
        });
        // SIGTERM: commit, and leave the group, so that others have the tasks at once.
        Runtime.getRuntime().addShutdownHook(new Thread(() ->
            streams.close(CloseOptions.timeout(Duration.ofSeconds(20)).withGroupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP))));
        streams.start();
    }
}
