import java.time.Duration;
import java.util.BitSet;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Flink's exactly-once sink, in a small cluster within this program.
 *
 * <p>Arguments: bootstrap servers, sink topic, then either "moved", source topic, number of its records, name of the
 * strategy (POOLING or INCREMENTING): all go from one topic to the other, with a checkpoint each 500 ms, and the job fails
 * twice behind a checkpoint. Or "large", a number of MiB and of sinks: so much in one checkpoint, a
 * transaction for each sink.
 */
public final class Ledger {
  private static final int RECORD_BYTES = 1024;

  public static void main(String[] arguments) throws Exception {
    String servers = arguments[0];
    String topic = arguments[1];
    long started = System.nanoTime();
    if (arguments[2].equals("moved")) {
      int wanted = Integer.parseInt(arguments[4]);
      moved(servers, arguments[3], topic, TransactionNamingStrategy.valueOf(arguments[5]));
      check(servers, topic, wanted, value -> Integer.parseInt(new String(value)));
      expect(Failing.FAILED.get() == Failing.TIMES, "failures: " + Failing.FAILED);
      System.out.printf("%d records, each record once, %.1f s%n", wanted, (System.nanoTime() - started) / 1e9);
    } else {
      int mebibytes = Integer.parseInt(arguments[3]);
      int wanted = mebibytes * 1024 * 1024 / RECORD_BYTES;
      large(servers, topic, wanted, Integer.parseInt(arguments[4]));
      double seconds = (System.nanoTime() - started) / 1e9;
      check(servers, topic, wanted, value -> java.nio.ByteBuffer.wrap(value).getInt());
      System.out.printf("%d MiB committed after %.1f s, each record once%n", mebibytes, seconds);
    }
  }

  private static void moved(String servers, String from, String to, TransactionNamingStrategy strategy)
      throws Exception {
    StreamExecutionEnvironment flink = flink("500 ms");
    KafkaSource<String> source =
        KafkaSource.<String>builder()
            .setBootstrapServers(servers)
            .setTopics(from)
            .setGroupId("flink")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
    flink
        .fromSource(source, WatermarkStrategy.noWatermarks(), "source")
        .map(new Failing())
        .sinkTo(sink(servers, to, new SimpleStringSchema()).setTransactionNamingStrategy(strategy).build());
    flink.execute("moved");
  }

  private static void large(String servers, String topic, int wanted, int sinks) throws Exception {
    StreamExecutionEnvironment flink = flink("1 h");
    flink.setParallelism(sinks);
    // The records end before the first checkpoint is due: the last one, at the end, has all of them.
    DataGeneratorSource<byte[]> source =
        new DataGeneratorSource<>(
            Ledger::record, wanted, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
    flink
        .fromSource(source, WatermarkStrategy.noWatermarks(), "numbers")
        .sinkTo(
            sink(servers, topic, new Bytes())
                .setProperty("batch.size", "262144")
                .setProperty("linger.ms", "50")
                .build());
    JobExecutionResult done = flink.execute("large");
    expect(done.isJobExecutionResult(), "done");
  }

  /** A class, since Flink looks up its type's argument. */
  private static final class Bytes implements SerializationSchema<byte[]> {
    @Override
    public byte[] serialize(byte[] value) {
      return value;
    }
  }

  private static byte[] record(Long number) {
    byte[] made = new byte[RECORD_BYTES];
    new Random(number).nextBytes(made);
    java.nio.ByteBuffer.wrap(made).putInt(number.intValue());
    return made;
  }

  private static StreamExecutionEnvironment flink(String interval) {
    Configuration given = new Configuration();
    given.setString("execution.checkpointing.interval", interval);
    given.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
    given.setString("restart-strategy.type", "fixed-delay");
    given.setString("restart-strategy.fixed-delay.attempts", "5");
    given.setString("restart-strategy.fixed-delay.delay", "500 ms");
    given.setString("taskmanager.memory.managed.size", "16 mb");
    given.setString("taskmanager.memory.network.min", "16 mb");
    given.setString("taskmanager.memory.network.max", "16 mb");
    return StreamExecutionEnvironment.createLocalEnvironment(2, given);
  }

  private static <T> KafkaSinkBuilder<T> sink(String servers, String topic, SerializationSchema<T> values) {
    return KafkaSink.<T>builder()
        .setBootstrapServers(servers)
        .setRecordSerializer(
            KafkaRecordSerializationSchema.<T>builder().setTopic(topic).setValueSerializationSchema(values).build())
        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .setTransactionalIdPrefix(topic)
        .setProperty("transaction.timeout.ms", "600000");
  }

  /** Takes 5 ms for each record, so that there are checkpoints enough, and fails twice, each time behind two more. */
  private static final class Failing extends RichMapFunction<String, String> implements CheckpointListener {
    static final int TIMES = 2;
    static final AtomicInteger FAILED = new AtomicInteger();
    private static final AtomicInteger COMPLETED = new AtomicInteger();

    @Override
    public String map(String value) throws Exception {
      Thread.sleep(5);
      int failed = FAILED.get();
      if (failed < TIMES && COMPLETED.get() >= 4 && FAILED.compareAndSet(failed, failed + 1)) {
        COMPLETED.set(0);
        throw new IllegalStateException("as planned");
      }
      return value;
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) {
      COMPLETED.incrementAndGet();
    }
  }

  private interface Number {
    int of(byte[] value);
  }

  /** All that is committed is the numbers below {@code wanted}, each once. */
  private static void check(String servers, String topic, int wanted, Number number) {
    Properties given = new Properties();
    given.put("bootstrap.servers", servers);
    given.put("isolation.level", "read_committed");
    BitSet seen = new BitSet(wanted);
    try (KafkaConsumer<String, byte[]> consumer =
        new KafkaConsumer<>(given, new StringDeserializer(), new ByteArrayDeserializer())) {
      List<TopicPartition> partitions =
          consumer.partitionsFor(topic).stream().map(one -> new TopicPartition(topic, one.partition())).toList();
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      long ends = System.nanoTime() + 120_000_000_000L;
      int quiet = 0;
      while (quiet < 3) {
        expect(System.nanoTime() < ends, "all records come: " + seen.cardinality() + " of " + wanted);
        var records = consumer.poll(Duration.ofSeconds(1));
        quiet = records.isEmpty() && seen.cardinality() == wanted ? quiet + 1 : 0;
        for (ConsumerRecord<String, byte[]> one : records) {
          int found = number.of(one.value());
          expect(found < wanted, "a number that was not sent: " + found);
          expect(!seen.get(found), "twice: " + found);
          seen.set(found);
        }
      }
    }
  }

  private static void expect(boolean isSo, String what) {
    if (!isSo) {
      throw new AssertionError(what);
    }
  }
}
