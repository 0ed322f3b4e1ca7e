import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Consume, transform, produce, exactly once: each value of one topic goes to the other in upper case.
 *
 * <p>Arguments: bootstrap servers, source, sink, number of records, and "abort" to abort each third transaction once.
 */
public final class Transfer {
  public static void main(String[] arguments) {
    String servers = arguments[0];
    int wanted = Integer.parseInt(arguments[3]);
    boolean aborts = arguments.length > 4;
    try (KafkaConsumer<String, String> consumer = consumer(servers);
        KafkaProducer<String, String> producer = producer(servers)) {
      producer.initTransactions();
      consumer.subscribe(List.of(arguments[1]));
      int moved = 0;
      int transactions = 0;
      while (moved < wanted) {
        var records = consumer.poll(Duration.ofSeconds(1));
        if (records.isEmpty()) {
          continue;
        }
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> one : records) {
          producer.send(new ProducerRecord<>(arguments[2], one.key(), one.value().toUpperCase()));
          offsets.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        transactions++;
        if (aborts && transactions % 3 == 1) {
          producer.abortTransaction();
          rewind(consumer);
          continue;
        }
        producer.commitTransaction();
        moved += records.count();
      }
      System.out.println("moved " + moved + " in " + transactions + " transactions");
    }
  }

  private static void rewind(KafkaConsumer<String, String> consumer) {
    Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
    for (TopicPartition partition : consumer.assignment()) {
      OffsetAndMetadata at = committed.get(partition);
      if (at == null) {
        consumer.seekToBeginning(List.of(partition));
      } else {
        consumer.seek(partition, at.offset());
      }
    }
  }

  private static KafkaConsumer<String, String> consumer(String servers) {
    Properties given = new Properties();
    given.put("bootstrap.servers", servers);
    given.put("group.id", "transfer");
    given.put("enable.auto.commit", "false");
    given.put("auto.offset.reset", "earliest");
    given.put("isolation.level", "read_committed");
    given.put("max.poll.records", "50");
    return new KafkaConsumer<>(given, new StringDeserializer(), new StringDeserializer());
  }

  private static KafkaProducer<String, String> producer(String servers) {
    Properties given = new Properties();
    given.put("bootstrap.servers", servers);
    given.put("transactional.id", "transfer");
    return new KafkaProducer<>(given, new StringSerializer(), new StringSerializer());
  }
}
