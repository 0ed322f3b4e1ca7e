import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Patterns that the group's coordinator evaluates (RE2J), and topics by their ids.
 *
 * <p>Arguments: bootstrap servers, and how many seconds a new topic may take to be read by a pattern.
 */
public final class Patterns {
  private final Map<String, Object> at;
  private final int seconds;
  private final String prefix = "pattern" + System.nanoTime();

  private Patterns(String servers, int seconds) {
    this.at = Map.of("bootstrap.servers", servers);
    this.seconds = seconds;
  }

  public static void main(String[] arguments) throws Exception {
    Patterns patterns = new Patterns(arguments[0], Integer.parseInt(arguments[1]));
    try (Admin admin = Admin.create(patterns.at)) {
      patterns.byId(admin);
      patterns.byPattern(admin);
      patterns.refused();
    }
    System.out.println("patterns and ids are as they should be");
  }

  /** A topic is described and deleted by the id that its creation told; the id of one that is no more is unknown. */
  private void byId(Admin admin) throws Exception {
    Uuid first = created(admin, name("id"), 3);
    TopicDescription seen = described(admin, first);
    expect(seen.name().equals(name("id")) && seen.partitions().size() == 3, "described by id: " + seen);
    expect(seen.topicId().equals(first), "the id that was asked for: " + seen);
    Uuid listed = admin.listTopics().listings().get().stream()
        .filter(one -> one.name().equals(name("id"))).findFirst().orElseThrow().topicId();
    expect(listed.equals(first), "listed id: " + listed);
    admin.deleteTopics(TopicCollection.ofTopicIds(List.of(first))).all().get();
    Uuid second = created(admin, name("id"), 1);
    expect(!second.equals(first), "another id");
    expectUnknown(() -> described(admin, first), "description of the topic that is no more");
    expectUnknown(
        () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(first))).all().get(), "deletion of the same");
    expectUnknown(() -> described(admin, Uuid.randomUuid()), "description of an id that never was");
    expect(described(admin, second).partitions().size() == 1, "the new topic is left alone");
  }

  /**
   * Two consumers of a group read what a pattern matches, then also a new topic; then one takes another pattern.
   *
   * <p>None of the topics is deleted: the client of 4.3 stops reading then, at a broker as well (MetadataResponse.errors).
   */
  private void byPattern(Admin admin) throws Exception {
    created(admin, name("orders.1"), 2);
    created(admin, name("orders.22"), 1);
    created(admin, name("other"), 1);
    Set<String> wanted = new TreeSet<>();
    produce(name("orders.1"), "a", wanted);
    produce(name("orders.22"), "b", wanted);
    produce(name("other"), "c", new TreeSet<>());
    try (KafkaConsumer<String, String> one = consumer();
        KafkaConsumer<String, String> two = consumer()) {
      SubscriptionPattern orders = new SubscriptionPattern("\\Q" + prefix + "\\E\\.orders\\.[[:digit:]]+");
      one.subscribe(orders);
      two.subscribe(orders);
      Set<String> seen = new TreeSet<>();
      read(List.of(one, two), seen, wanted);
      created(admin, name("orders.333"), 2);
      produce(name("orders.333"), "d", wanted);
      read(List.of(one, two), seen, wanted);
      Set<String> others = new TreeSet<>();
      produce(name("other"), "f", others);
      one.subscribe(new SubscriptionPattern("^" + prefix + "\\.(?:other|nothing)$"));
      two.unsubscribe();
      Set<String> all = new TreeSet<>(others);
      for (int number = 0; number < 50; number++) {
        all.add("c " + number);
      }
      read(List.of(one), seen = new TreeSet<>(), all);
      expect(one.assignment().stream().allMatch(part -> part.topic().equals(name("other"))),
          "assigned: " + one.assignment());
    }
  }

  /** What RE2J does not know is refused. */
  private void refused() {
    for (String wrong : List.of("(", "a**", "(?=x)", "[z-a]")) {
      try (KafkaConsumer<String, String> consumer = consumer()) {
        consumer.subscribe(new SubscriptionPattern(wrong));
        long ends = System.nanoTime() + 30_000_000_000L;
        while (System.nanoTime() < ends) {
          consumer.poll(Duration.ofMillis(200));
        }
        throw new AssertionError("taken: " + wrong);
      } catch (InvalidRegularExpression refused) {
        expect(!refused.getMessage().isEmpty(), "a reason");
      }
    }
  }

  private void read(List<KafkaConsumer<String, String>> consumers, Set<String> seen, Set<String> wanted) {
    long ends = System.nanoTime() + seconds * 1_000_000_000L;
    while (!seen.equals(wanted)) {
      expect(System.nanoTime() < ends, "all records come: "
          + wanted.stream().filter(value -> !seen.contains(value)).limit(3).collect(Collectors.toList()) + " are missing");
      for (KafkaConsumer<String, String> consumer : consumers) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
          expect(seen.add(record.value()), "once: " + record);
          expect(wanted.contains(record.value()), "of the pattern: " + record);
        }
      }
    }
  }

  private String name(String of) {
    return prefix + "." + of;
  }

  private KafkaConsumer<String, String> consumer() {
    Properties given = new Properties();
    given.putAll(at);
    given.put("group.id", prefix);
    given.put("group.protocol", "consumer");
    given.put("auto.offset.reset", "earliest");
    given.put("metadata.max.age.ms", "2000");
    return new KafkaConsumer<>(given, new StringDeserializer(), new StringDeserializer());
  }

  private void produce(String topic, String prefix, Set<String> sent) {
    Properties given = new Properties();
    given.putAll(at);
    try (KafkaProducer<String, String> producer =
        new KafkaProducer<>(given, new StringSerializer(), new StringSerializer())) {
      for (int number = 0; number < 50; number++) {
        producer.send(new ProducerRecord<>(topic, "key " + number, prefix + " " + number));
        sent.add(prefix + " " + number);
      }
    }
  }

  private static Uuid created(Admin admin, String name, int partitions) throws Exception {
    CreateTopicsResult made = admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1)));
    made.all().get();
    return made.topicId(name).get();
  }

  private static TopicDescription described(Admin admin, Uuid id) throws Exception {
    return admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id);
  }

  private interface Call {
    Object made() throws Exception;
  }

  private static void expectUnknown(Call call, String what) throws Exception {
    try {
      throw new AssertionError(what + ": " + call.made());
    } catch (ExecutionException refused) {
      expect(refused.getCause() instanceof UnknownTopicIdException, what + ": " + refused.getCause());
    }
  }

  private static void expect(boolean isSo, String what) {
    if (!isSo) {
      throw new AssertionError(what);
    }
  }
}
