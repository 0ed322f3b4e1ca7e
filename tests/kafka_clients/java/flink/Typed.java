import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.SchemaBuilder;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericData;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericRecord;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.formats.avro.registry.confluent.ConfluentRegistryAvroDeserializationSchema;
import org.apache.flink.formats.avro.registry.confluent.ConfluentRegistryAvroSerializationSchema;
import org.apache.flink.formats.avro.typeutils.GenericRecordAvroTypeInfo;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Flink's format avro-confluent, and Confluent's client for Java, which it has within it.
 *
 * <p>Arguments: bootstrap servers, the registry's URL, a topic, number of records, and "typed" where the topic is to get the
 * subject's schema.
 */
public final class Typed {
  private static final Schema ORDER =
      SchemaBuilder.record("Order").namespace("shop").fields()
          .requiredLong("id").requiredDouble("amount").optionalString("note").endRecord();

  public static void main(String[] arguments) throws Exception {
    String servers = arguments[0];
    String url = arguments[1];
    String topic = arguments[2];
    int count = Integer.parseInt(arguments[3]);
    calls(url, topic);
    if (arguments.length > 4) {
      type(servers, topic);
    }
    written(servers, url, topic, count);
    read(servers, url, topic, count);
    System.out.println(count + " records, all is as it should be");
  }

  private static void calls(String url, String topic) throws Exception {
    CachedSchemaRegistryClient client = new CachedSchemaRegistryClient(url, 100);
    String subject = topic + "-value";
    AvroSchema schema = new AvroSchema(ORDER.toString());
    int id = client.register(subject, schema);
    expect(new CachedSchemaRegistryClient(url, 100).getId(subject, schema) == id, "the id of a look-up");
    expect(new CachedSchemaRegistryClient(url, 100).getSchemaById(id).equals(schema), "the schema of an id");
    SchemaMetadata latest = client.getLatestSchemaMetadata(subject);
    expect(latest.getId() == id && latest.getVersion() == 1, "the latest version");
    expect(client.getAllVersions(subject).equals(List.of(1)), "versions");
    expect(client.getAllSubjectsById(id).contains(subject), "subjects of an id");
    expect(client.getAllSubjects().contains(subject), "subjects");
    client.updateCompatibility(subject, "FULL");
    expect(client.getCompatibility(subject).equals("FULL"), "the compatibility");
    AvroSchema other = new AvroSchema(ORDER.toString().replace("\"long\"", "\"string\""));
    expect(!client.testCompatibility(subject, other), "compatible");
    expect(!client.testCompatibilityVerbose(subject, other).isEmpty(), "reasons");
    refused(() -> client.register(subject, other), 409, 409);
    refused(() -> client.getSchemaById(1999999999), 404, 40403);
    refused(() -> client.getLatestSchemaMetadata("no-" + subject), 404, 40401);
    client.register(subject + "-gone", schema);
    expect(client.deleteSubject(subject + "-gone").equals(List.of(1)), "deleted versions");
    expect(client.deleteSubject(Map.of(), subject + "-gone", true).equals(List.of(1)), "permanently deleted versions");
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

  private static void written(String servers, String url, String topic, int count) throws Exception {
    StreamExecutionEnvironment flink = flink();
    DataGeneratorSource<GenericRecord> source =
        new DataGeneratorSource<>(Typed::order, count, new GenericRecordAvroTypeInfo(ORDER));
    KafkaSink<GenericRecord> sink =
        KafkaSink.<GenericRecord>builder()
            .setBootstrapServers(servers)
            .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
            .setRecordSerializer(
                KafkaRecordSerializationSchema.<GenericRecord>builder()
                    .setTopic(topic)
                    .setValueSerializationSchema(
                        ConfluentRegistryAvroSerializationSchema.forGeneric(topic + "-value", ORDER, url))
                    .build())
            .build();
    flink.fromSource(source, WatermarkStrategy.noWatermarks(), "orders").sinkTo(sink);
    flink.execute("written");
  }

  private static void read(String servers, String url, String topic, int count) throws Exception {
    KafkaSource<GenericRecord> source =
        KafkaSource.<GenericRecord>builder()
            .setBootstrapServers(servers)
            .setTopics(topic)
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(ConfluentRegistryAvroDeserializationSchema.forGeneric(ORDER, url))
            .build();
    java.util.BitSet found = new java.util.BitSet();
    int got = 0;
    try (CloseableIterator<GenericRecord> records =
        flink().fromSource(source, WatermarkStrategy.noWatermarks(), "read").executeAndCollect("read")) {
      while (records.hasNext()) {
        GenericRecord one = records.next();
        long id = (Long) one.get("id");
        expect((Double) one.get("amount") == id / 2.0, "an amount");
        found.set((int) id);
        got++;
      }
    }
    expect(got == count && found.cardinality() == count, got + " of " + count + " records");
  }

  private static GenericRecord order(Long number) {
    GenericRecord made = new GenericData.Record(ORDER);
    made.put("id", number);
    made.put("amount", number / 2.0);
    return made;
  }

  private static StreamExecutionEnvironment flink() {
    StreamExecutionEnvironment made = StreamExecutionEnvironment.getExecutionEnvironment();
    made.setParallelism(1);
    return made;
  }

  private interface Call {
    void run() throws Exception;
  }

  private static void refused(Call call, int status, int code) throws Exception {
    try {
      call.run();
    } catch (RestClientException refusal) {
      expect(refusal.getStatus() == status && refusal.getErrorCode() == code, "refused with " + refusal);
      return;
    }
    throw new IllegalStateException("Error: not refused with " + code);
  }

  private static void expect(boolean isSo, String what) {
    if (!isSo) {
      throw new IllegalStateException("Error: " + what);
    }
  }
}
