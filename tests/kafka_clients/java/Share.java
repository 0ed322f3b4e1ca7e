import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidRecordStateException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What applications do with a share group, one after the other.
 *
 * <p>Arguments: bootstrap servers, and how long a short lock is. Ends with an error where anything is not as KIP-932 has it.
 */
public final class Share {
  private static final Duration POLL = Duration.ofMillis(500);

  private final String servers;
  private final String lockMs;

  private Share(String servers, String lockMs) {
    this.servers = servers;
    this.lockMs = lockMs;
  }

  public static void main(String[] arguments) throws Exception {
    Share share = new Share(arguments[0], arguments[1]);
    share.implicit();
    share.explicit();
    share.lockEnds();
    share.twoConsumers();
    share.renews();
    System.out.println("shared");
  }

  /** Records are accepted by polling on, and by closing. */
  private void implicit() throws Exception {
    String topic = topic("implicit", 4);
    String group = group("implicit", Map.of());
    produce(topic, "first", 300);
    try (KafkaShareConsumer<String, String> consumer = consumer(group, topic, "implicit")) {
      Map<String, Integer> seen = read(consumer, 300, record -> null);
      expect(seen.values().stream().allMatch(count -> count == 1), "each once: " + seen);
    }
    produce(topic, "later", 5);
    try (KafkaShareConsumer<String, String> consumer = consumer(group, topic, "implicit")) {
      Map<String, Integer> seen = read(consumer, 5, record -> null);
      expect(seen.keySet().stream().allMatch(value -> value.startsWith("later")), "only what is new: " + seen);
    }
  }

  /** Accepted once, released and given again with a count of 2, rejected and never seen again. */
  private void explicit() throws Exception {
    String topic = topic("explicit", 1);
    String group = group("explicit", Map.of());
    produce(topic, "record", 30);
    try (KafkaShareConsumer<String, String> consumer = consumer(group, topic, "explicit")) {
      Map<String, Integer> seen = read(consumer, 30, Share::judged);
      seen.forEach(
          (value, count) -> expect(count == (number(value) % 3 == 0 ? 2 : 1), value + " came " + count + " times"));
    }
    try (KafkaShareConsumer<String, String> consumer = consumer(group, topic, "explicit")) {
      expect(consumer.poll(POLL.multipliedBy(4)).isEmpty(), "nothing is left");
    }
  }

  private static AcknowledgeType judged(ConsumerRecord<String, String> record) {
    int number = number(record.value());
    if (number % 3 == 1) {
      return AcknowledgeType.REJECT;
    }
    boolean isReleased = number % 3 == 0 && record.deliveryCount().get() == 1;
    return isReleased ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
  }

  private static int number(String value) {
    return Integer.parseInt(value.split(" ")[1]);
  }

  /** A record whose lock ends goes to another consumer; the first one's late word is refused. */
  private void lockEnds() throws Exception {
    String topic = topic("locks", 1);
    String group = group("locks", Map.of("share.record.lock.duration.ms", lockMs));
    produce(topic, "record", 1);
    try (KafkaShareConsumer<String, String> slow = consumer(group, topic, "explicit");
        KafkaShareConsumer<String, String> quick = consumer(group, topic, "explicit")) {
      ConsumerRecord<String, String> held = one(slow);
      ConsumerRecord<String, String> again = one(quick);
      expect(again.offset() == held.offset(), "the same record");
      expect(again.deliveryCount().equals(Optional.of((short) 2)), "for the second time: " + again.deliveryCount());
      slow.acknowledge(held, AcknowledgeType.ACCEPT);
      expectCommitted(slow.commitSync(), InvalidRecordStateException.class);
      quick.acknowledge(again, AcknowledgeType.ACCEPT);
      expectCommitted(quick.commitSync(), null);
    }
  }

  /** Two consumers read one partition, and each record goes to one of them. */
  private void twoConsumers() throws Exception {
    String topic = topic("two", 1);
    String group = group("two", Map.of());
    produce(topic, "record", 200);
    Map<String, Integer> seen = new HashMap<>();
    String[] few = {"max.poll.records", "20", "share.acquire.mode", "record_limit"};
    try (KafkaShareConsumer<String, String> first = consumer(group, topic, "implicit", few);
        KafkaShareConsumer<String, String> second = consumer(group, topic, "implicit", few)) {
      int[] counts = new int[2];
      long ends = end();
      while (seen.size() < 200) {
        expect(System.nanoTime() < ends, "all records come: " + seen.size());
        counts[0] += take(first, seen);
        counts[1] += take(second, seen);
      }
      expect(counts[0] > 0 && counts[1] > 0, "both have some: " + counts[0] + ", " + counts[1]);
      expect(seen.values().stream().allMatch(count -> count == 1), "each once: " + seen);
    }
  }

  private static int take(KafkaShareConsumer<String, String> consumer, Map<String, Integer> seen) {
    var records = consumer.poll(POLL);
    records.forEach(one -> seen.merge(one.value(), 1, Integer::sum));
    return records.count();
  }

  /** A lock that is renewed outlives its first length. */
  private void renews() throws Exception {
    String topic = topic("renewed", 1);
    String group = group("renewed", Map.of("share.record.lock.duration.ms", lockMs));
    produce(topic, "record", 1);
    try (KafkaShareConsumer<String, String> slow = consumer(group, topic, "explicit");
        KafkaShareConsumer<String, String> other = consumer(group, topic, "explicit")) {
      ConsumerRecord<String, String> held = one(slow);
      for (int turn = 0; turn < 4; turn++) {
        slow.acknowledge(held, AcknowledgeType.RENEW);
        expectCommitted(slow.commitSync(), null);
        expect(other.poll(Duration.ofMillis(Long.parseLong(lockMs) / 2)).isEmpty(), "the lock holds");
        slow.poll(Duration.ofMillis(10));
      }
      slow.acknowledge(held, AcknowledgeType.ACCEPT);
      expectCommitted(slow.commitSync(), null);
    }
  }

  private static ConsumerRecord<String, String> one(KafkaShareConsumer<String, String> consumer) {
    long ends = end();
    while (System.nanoTime() < ends) {
      for (ConsumerRecord<String, String> one : consumer.poll(POLL)) {
        return one;
      }
    }
    throw new AssertionError("no record");
  }

  /** How often each value came, until so many values came and nothing more comes. A judge of null acknowledges nothing. */
  private static Map<String, Integer> read(
      KafkaShareConsumer<String, String> consumer,
      int wanted,
      Function<ConsumerRecord<String, String>, AcknowledgeType> judge) {
    Map<String, Integer> seen = new TreeMap<>();
    long ends = end();
    int quiet = 0;
    while (seen.size() < wanted || quiet < 3) {
      expect(System.nanoTime() < ends, "all records come: " + seen.size());
      var records = consumer.poll(POLL);
      quiet = records.isEmpty() ? quiet + 1 : 0;
      for (ConsumerRecord<String, String> one : records) {
        seen.merge(one.value(), 1, Integer::sum);
        AcknowledgeType type = judge.apply(one);
        if (type != null) {
          consumer.acknowledge(one, type);
        }
      }
    }
    return seen;
  }

  private static long end() {
    return System.nanoTime() + 60_000_000_000L;
  }

  private static void expectCommitted(
      Map<TopicIdPartition, Optional<KafkaException>> results, Class<? extends Exception> wanted) {
    expect(results.size() == 1, "one partition: " + results);
    Optional<KafkaException> error = results.values().iterator().next();
    expect(wanted == null ? error.isEmpty() : error.isPresent() && wanted.isInstance(error.get()), "committed: " + error);
  }

  private static void expect(boolean isSo, String what) {
    if (!isSo) {
      throw new AssertionError(what);
    }
  }

  private String topic(String name, int partitions) throws Exception {
    String topic = "share-" + name + "-" + System.nanoTime();
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
      admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
    }
    return topic;
  }

  private String group(String name, Map<String, String> settings) throws Exception {
    String group = "share-" + name + "-" + System.nanoTime();
    Map<String, String> all = new HashMap<>(settings);
    all.put("share.auto.offset.reset", "earliest");
    Collection<AlterConfigOp> changes =
        all.entrySet().stream()
            .map(one -> new AlterConfigOp(new ConfigEntry(one.getKey(), one.getValue()), AlterConfigOp.OpType.SET))
            .toList();
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
      ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
      admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
    }
    return group;
  }

  private void produce(String topic, String prefix, int count) {
    Properties given = new Properties();
    given.put("bootstrap.servers", servers);
    try (KafkaProducer<String, String> producer =
        new KafkaProducer<>(given, new StringSerializer(), new StringSerializer())) {
      for (int number = 0; number < count; number++) {
        producer.send(new ProducerRecord<>(topic, "key " + number, prefix + " " + number));
      }
    }
  }

  private KafkaShareConsumer<String, String> consumer(String group, String topic, String mode, String... more) {
    Properties given = new Properties();
    given.put("bootstrap.servers", servers);
    given.put("group.id", group);
    given.put("share.acknowledgement.mode", mode);
    for (int at = 0; at < more.length; at += 2) {
      given.put(more[at], more[at + 1]);
    }
    KafkaShareConsumer<String, String> made =
        new KafkaShareConsumer<>(given, new StringDeserializer(), new StringDeserializer());
    made.subscribe(List.of(topic));
    return made;
  }
}
