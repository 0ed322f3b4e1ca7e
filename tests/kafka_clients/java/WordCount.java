import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words with exactly-once v2 until it is killed: words of one topic, counts of words in the other.
 *
 * <p>Arguments: bootstrap servers, source, sink, state directory.
 */
public final class WordCount {
  public static void main(String[] arguments) {
    Properties given = new Properties();
    given.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count");
    given.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    given.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
    given.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    given.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
    given.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
    given.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
    given.put("session.timeout.ms", "6000");
    given.put("auto.offset.reset", "earliest");
    StreamsBuilder builder = new StreamsBuilder();
    builder.<String, String>stream(arguments[1])
        .flatMapValues(line -> Arrays.asList(line.toLowerCase().split(" ")))
        .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.as("counts"))
        .toStream()
        .mapValues(String::valueOf)
        .to(arguments[2], Produced.with(Serdes.String(), Serdes.String()));
    KafkaStreams streams = new KafkaStreams(builder.build(), given);
    streams.setStateListener((now, before) -> System.out.println("state " + now));
    streams.setUncaughtExceptionHandler(
        error -> {
          error.printStackTrace(System.out);
          return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }
}
