// Values of two clients' serializers, with the registry, in records: @kafkajs/confluent-schema-registry and Confluent's own.
const { Kafka, logLevel } = require("kafkajs");
const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");
const { SchemaRegistryClient, SerdeType, AvroSerializer, AvroDeserializer, JsonSerializer, JsonDeserializer } = require("@confluentinc/schemaregistry");
const assert = require("node:assert/strict");

const [servers, url, topic] = process.argv.slice(2);
const COUNT = 200;
const AVRO = JSON.stringify({ type: "record", name: "Order", namespace: "shop", fields: [{ name: "id", type: "int" }, { name: "note", type: ["null", "string"], default: null }] });
const JSON_SCHEMA = JSON.stringify({ type: "object", properties: { id: { type: "integer" } }, required: ["id"], additionalProperties: false });
const PROTO = 'syntax = "proto3"; package shop; message Order { int32 id = 1; string note = 2; }';

async function main() {
  const kafka = new Kafka({ brokers: [servers], logLevel: logLevel.ERROR });
  const [admin, producer] = [kafka.admin(), kafka.producer()];
  await admin.connect();
  await producer.connect();
  await admin.createTopics({ topics: ["avro", "json", "protobuf", "own-avro", "own-json"].map((kind) => ({ topic: `${topic}-${kind}`, numPartitions: 1 })) });

  const registry = new SchemaRegistry({ host: url });
  for (const [kind, type, schema] of [["avro", SchemaType.AVRO, AVRO], ["json", SchemaType.JSON, JSON_SCHEMA], ["protobuf", SchemaType.PROTOBUF, PROTO]]) {
    const named = `${topic}-${kind}`;
    const { id } = await registry.register({ type, schema }, { subject: `${named}-value` });
    assert.equal((await registry.register({ type, schema }, { subject: `${named}-value` })).id, id);
    assert.equal(await registry.getLatestSchemaId(`${named}-value`), id);
    await through(kafka, producer, named, (value) => registry.encode(id, value), (data) => new SchemaRegistry({ host: url }).decode(data));
  }
  const changed = { type: SchemaType.AVRO, schema: AVRO.replace('"int"', '"string"') };
  await assert.rejects(registry.register(changed, { subject: `${topic}-avro-value` }), /incompatible/i);
  await assert.rejects(new SchemaRegistry({ host: url, retry: { retries: 0 } }).getSchema(1999999999), (error) => error.status === 404);

  const client = new SchemaRegistryClient({ baseURLs: [url] });
  for (const [kind, type, schema, Serializer, Deserializer] of [["avro", "AVRO", AVRO, AvroSerializer, AvroDeserializer], ["json", "JSON", JSON_SCHEMA, JsonSerializer, JsonDeserializer]]) {
    const named = `${topic}-own-${kind}`;
    const id = await client.register(`${named}-value`, { schemaType: type, schema });
    assert.equal((await client.getLatestSchemaMetadata(`${named}-value`)).id, id);
    assert.deepEqual(await client.getAllVersions(`${named}-value`), [1]);
    const writer = new Serializer(client, SerdeType.VALUE, { useLatestVersion: true });
    const reader = new Deserializer(new SchemaRegistryClient({ baseURLs: [url] }), SerdeType.VALUE, {});
    await through(kafka, producer, named, (value) => writer.serialize(named, value), (data) => reader.deserialize(named, data));
  }
  await producer.disconnect();
  await admin.disconnect();
  console.log("all is as it should be");
}

async function through(kafka, producer, topic, encode, decode) {
  const messages = [];
  for (let id = 0; id < COUNT; id++) messages.push({ value: await encode({ id }) });
  await producer.send({ topic, messages });
  const consumer = kafka.consumer({ groupId: `of-${topic}` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const found = [];
  await new Promise((done, failed) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        try {
          found.push((await decode(message.value)).id);
          if (found.length === COUNT) done();
        } catch (error) {
          failed(error);
        }
      },
    });
  });
  await consumer.disconnect();
  assert.deepEqual(found, Array.from({ length: COUNT }, (_, id) => id), topic);
}

main().catch((error) => {
  console.error("Error:", error);
  process.exit(1);
});
