import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import io.confluent.kafka.schemaregistry.protobuf.ProtobufSchema;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.SchemaBuilder;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Confluent's serializers and deserializers: the first value registers the schema, a later one its next version; values that the
 * registry refuses, and that it does not know; the newest version instead of the value's own.
 *
 * <p>Arguments: avro or protobuf, bootstrap servers, the registry's URL, a topic, number of records, and "typed" where the topic
 * is to get the subject's schema behind its first record.
 */
public final class Serializers {
  private static final int MORE = 7;
  private static final String PACKAGE = "io.confluent.kafka.serializers.";

  public static void main(String[] arguments) throws Exception {
    Format format = arguments[0].equals("avro") ? new Avro() : new Protobuf();
    String topic = arguments[3];
    int count = Integer.parseInt(arguments[4]);
    Map<String, Object> given = new HashMap<>();
    given.put("bootstrap.servers", arguments[1]);
    given.put("schema.registry.url", arguments[2]);
    given.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    given.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
    given.put("value.serializer", PACKAGE + format.name() + "Serializer");
    given.put("value.deserializer", PACKAGE + format.name() + "Deserializer");

    CachedSchemaRegistryClient client = new CachedSchemaRegistryClient(arguments[2], 100);
    try (KafkaProducer<String, Object> producer = new KafkaProducer<>(given)) {
      producer.send(new ProducerRecord<>(topic, "k", format.order(0, false))).get();
      client.updateCompatibility(topic + "-value", "BACKWARD");
      if (arguments.length > 5) {
        type(arguments[1], topic);
      }
      for (int number = 1; number < count / 2; number++) {
        producer.send(new ProducerRecord<>(topic, "k", format.order(number, false)));
      }
      for (int number = count / 2; number < count - 1; number++) {
        producer.send(new ProducerRecord<>(topic, "k", format.order(number, true)));
      }
      refused(() -> producer.send(new ProducerRecord<>(topic, "k", format.incompatible())), 409);
    }
    expect(client.getAllVersions(topic + "-value").equals(List.of(1, 2)), "versions");

    Map<String, Object> unregistered = new HashMap<>(given);
    unregistered.put("auto.register.schemas", false);
    try (KafkaProducer<String, Object> producer = new KafkaProducer<>(unregistered)) {
      refused(() -> producer.send(new ProducerRecord<>(topic, "k", format.incompatible())), 40403);
    }
    unregistered.put("use.latest.version", true);
    unregistered.put("latest.compatibility.strict", false);
    try (KafkaProducer<String, Object> producer = new KafkaProducer<>(unregistered)) {
      producer.send(new ProducerRecord<>(topic, "k", format.order(count - 1, true))).get();
    }
    read(given, topic, count, format);
    System.out.println(count + " records, all is as it should be");
  }

  private static void type(String servers, String topic) throws Exception {
    ConfigResource named = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    ConfigEntry schema = new ConfigEntry("tidelog.value.schema", topic + "-value");
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
      admin
          .incrementalAlterConfigs(Map.of(named, List.of(new AlterConfigOp(schema, AlterConfigOp.OpType.SET))))
          .all()
          .get();
    }
  }

  private static void read(Map<String, Object> given, String topic, int count, Format format) {
    java.util.BitSet found = new java.util.BitSet();
    int got = 0;
    try (KafkaConsumer<String, Object> consumer = new KafkaConsumer<>(given)) {
      List<TopicPartition> partitions = new ArrayList<>();
      consumer.partitionsFor(topic).forEach(one -> partitions.add(new TopicPartition(topic, one.partition())));
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      long ends = System.nanoTime() + Duration.ofSeconds(30).toNanos();
      while (got < count && System.nanoTime() < ends) {
        for (ConsumerRecord<String, Object> one : consumer.poll(Duration.ofSeconds(1))) {
          int number = format.number(one.value());
          // Messages of two descriptors are never equal, their texts are.
          String sent = format.order(number, number >= count / 2).toString();
          expect(sent.equals(one.value().toString()), one.value() + " instead of " + sent);
          found.set(number);
          got++;
        }
      }
    }
    expect(got == count && found.cardinality() == count, got + " of " + count + " records");
  }

  /** Values of a format: an order, with another field or without. */
  private interface Format {
    String name();

    Object order(int number, boolean hasMore);

    Object incompatible();

    int number(Object value);
  }

  private static final class Avro implements Format {
    private static final Schema FIRST = fields().endRecord();
    private static final Schema SECOND = fields().name("more").type().intType().intDefault(0).endRecord();

    private static SchemaBuilder.FieldAssembler<Schema> fields() {
      return SchemaBuilder.record("Order").namespace("shop").fields()
          .requiredLong("id").requiredDouble("amount").optionalString("note")
          .name("tags").type().array().items().stringType().noDefault();
    }

    @Override
    public String name() {
      return "KafkaAvro";
    }

    @Override
    public Object order(int number, boolean hasMore) {
      GenericRecord made = new GenericData.Record(hasMore ? SECOND : FIRST);
      made.put("id", (long) number);
      made.put("amount", number / 2.0);
      made.put("note", number % 2 == 0 ? null : new org.apache.avro.util.Utf8("note"));
      made.put("tags", new GenericData.Array<>(FIRST.getField("tags").schema(), List.of(new org.apache.avro.util.Utf8("a"))));
      if (hasMore) {
        made.put("more", MORE);
      }
      return made;
    }

    @Override
    public Object incompatible() {
      Schema other = SchemaBuilder.record("Order").namespace("shop").fields().requiredString("id").endRecord();
      GenericRecord made = new GenericData.Record(other);
      made.put("id", "text");
      return made;
    }

    @Override
    public int number(Object value) {
      return (int) (long) ((GenericRecord) value).get("id");
    }
  }

  private static final class Protobuf implements Format {
    private static final String FIELDS =
        "syntax = \"proto3\"; package shop; import \"google/protobuf/timestamp.proto\"; import \"shop/money.proto\";"
            + "message Order { int64 id = 1; double amount = 2; optional string note = 3; google.protobuf.Timestamp at = 4;"
            + " Money price = 5; oneof paid { string card = 6; bool cash = 7; } repeated string tags = 8;"
            + " map<string, int32> counts = 9; ";
    private static final String MONEY = "syntax = \"proto3\"; package shop; message Money { int64 cents = 1; string currency = 2; }";
    private static final Descriptor FIRST = descriptor(FIELDS + "}");
    private static final Descriptor SECOND = descriptor(FIELDS + "int32 more = 10; }");

    private static Descriptor descriptor(String text) {
      List<SchemaReference> references = List.of(new SchemaReference("shop/money.proto", "shop/money.proto", 1));
      return new ProtobufSchema(text, references, Map.of("shop/money.proto", MONEY), null, "Order").toDescriptor();
    }

    @Override
    public String name() {
      return "protobuf.KafkaProtobuf";
    }

    @Override
    public Object order(int number, boolean hasMore) {
      Descriptor kind = hasMore ? SECOND : FIRST;
      DynamicMessage.Builder made = DynamicMessage.newBuilder(kind);
      made.setField(kind.findFieldByName("id"), (long) number);
      made.setField(kind.findFieldByName("amount"), number / 2.0);
      if (number % 2 != 0) {
        made.setField(kind.findFieldByName("note"), "");
      }
      made.setField(kind.findFieldByName("at"), message(kind, "at", Map.of("seconds", (long) number)));
      made.setField(kind.findFieldByName("price"), message(kind, "price", Map.of("cents", 5L, "currency", "EUR")));
      made.setField(kind.findFieldByName(number % 3 == 0 ? "card" : "cash"), number % 3 == 0 ? "c" : (Object) true);
      made.addRepeatedField(kind.findFieldByName("tags"), "a");
      made.addRepeatedField(kind.findFieldByName("counts"), message(kind, "counts", Map.of("key", "k", "value", number)));
      if (hasMore) {
        made.setField(kind.findFieldByName("more"), MORE);
      }
      return made.build();
    }

    private static Message message(Descriptor of, String field, Map<String, Object> members) {
      Descriptor kind = of.findFieldByName(field).getMessageType();
      DynamicMessage.Builder made = DynamicMessage.newBuilder(kind);
      members.forEach((name, value) -> made.setField(kind.findFieldByName(name), value));
      return made.build();
    }

    @Override
    public Object incompatible() {
      String text = "syntax = \"proto3\"; package shop; message Order { string id = 1; }";
      Descriptor kind = new ProtobufSchema(text).toDescriptor("shop.Order");
      return DynamicMessage.newBuilder(kind).setField(kind.findFieldByName("id"), "text").build();
    }

    @Override
    public int number(Object value) {
      DynamicMessage message = (DynamicMessage) value;
      return (int) (long) message.getField(message.getDescriptorForType().findFieldByName("id"));
    }
  }

  private static void refused(Runnable call, int code) {
    try {
      call.run();
    } catch (RuntimeException error) {
      for (Throwable one = error; one != null; one = one.getCause()) {
        boolean isIt = one instanceof RestClientException && ((RestClientException) one).getErrorCode() == code;
        if (isIt || String.valueOf(one.getMessage()).contains("error code: " + code)) {
          return;
        }
      }
      throw error;
    }
    throw new IllegalStateException("Error: not refused with " + code);
  }

  private static void expect(boolean isSo, String what) {
    if (!isSo) {
      throw new IllegalStateException("Error: " + what);
    }
  }
}
