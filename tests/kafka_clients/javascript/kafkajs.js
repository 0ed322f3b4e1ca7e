// What a program of kafkajs does: administration, five codecs, a group that stops and goes on, transactions.
//
// Arguments: bootstrap servers, prefix of topics and groups.
'use strict'
const assert = require('node:assert/strict')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const LZ4 = require('kafkajs-lz4')
const zstd = require('@bokuweb/zstd-wasm')

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
})

const [servers, prefix] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [servers], logLevel: logLevel.NOTHING })
const admin = kafka.admin()

const records = (start, end, word) =>
  Array.from({ length: end - start }, (_, i) => ({
    key: `k${start + i}`,
    value: `${word} ${start + i} ${'x'.repeat((start + i) % 300)}`,
    headers: { number: `${start + i}` },
  }))

const texts = (sent) => sent.map(({ key, value, headers }) => `${key}|${value}|${headers.number}`)

// Reads in a group until `count` records came and 2 s brought no more.
async function read(groupId, topics, count, more = {}) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10000, maxWaitTimeInMs: 500, ...more })
  const seen = []
  let last = Date.now()
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      seen.push(`${message.key}|${message.value}|${message.headers.number}`)
      last = Date.now()
      if (message.offset % 50 === 49 || seen.length >= count) {
        await consumer.commitOffsets([{ topic, partition, offset: `${BigInt(message.offset) + 1n}` }])
      }
    },
  })
  const begun = Date.now()
  while (seen.length < count || Date.now() - last < 2000) {
    if (Date.now() - begun > 60000) throw new Error(`${seen.length} of ${count} records in ${groupId}`)
    await new Promise((done) => setTimeout(done, 100))
  }
  await consumer.disconnect()
  return seen
}

async function administration(topic) {
  const entries = [{ name: 'retention.ms', value: '86400000' }]
  assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 2, configEntries: entries }] }), true)
  assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] }), false)
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  assert.deepEqual(topics[0].partitions.map((one) => one.partitionId).sort(), [0, 1, 2])
  assert.ok((await admin.listTopics()).includes(topic))
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  await admin.alterConfigs({
    resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '3600000' }] }],
  })
  const { resources } = await admin.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] })
  assert.equal(resources[0].configEntries[0].configValue, '3600000')
}

async function codecs(topic) {
  const wanted = []
  for (const [word, compression] of Object.entries(CompressionTypes)) {
    for (const idempotent of [false, true]) {
      const producer = kafka.producer({ idempotent })
      await producer.connect()
      const batch = records(0, 100, `${word} ${idempotent}`)
      await producer.send({ topic, acks: -1, compression, messages: batch })
      wanted.push(...texts(batch))
      await producer.disconnect()
    }
  }
  return wanted
}

async function group(topic, wanted) {
  const groupId = `${prefix}.group`
  assert.deepEqual((await read(groupId, [topic], wanted.length)).sort(), [...wanted].sort())
  const { groups } = await admin.describeGroups([groupId])
  assert.equal(groups[0].state, 'Empty')
  await admin.setOffsets({
    groupId,
    topic,
    partitions: (await admin.fetchTopicOffsets(topic)).map(({ partition, high }) => ({ partition, offset: high })),
  })
  const producer = kafka.producer()
  await producer.connect()
  const later = records(0, 60, 'later')
  await producer.send({ topic, messages: later })
  await producer.disconnect()
  assert.deepEqual((await read(groupId, [topic], later.length)).sort(), texts(later).sort())
  await admin.resetOffsets({ groupId, topic, earliest: true })
  const again = [...wanted, ...texts(later)]
  assert.deepEqual((await read(groupId, [topic], again.length)).sort(), again.sort())
  assert.ok((await admin.listGroups()).groups.some((one) => one.groupId === groupId))
  await admin.deleteGroups([groupId])
  assert.ok(!(await admin.listGroups()).groups.some((one) => one.groupId === groupId))
  return again
}

// Every third transaction is aborted; each moves the offsets of a group, too.
async function transactions(topic) {
  const groupId = `${prefix}.transfer`
  const producer = kafka.producer({ transactionalId: `${prefix}.id`, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const wanted = []
  for (let round = 0; round < 9; round++) {
    const transaction = await producer.transaction()
    const batch = records(round * 20, round * 20 + 20, 'transaction')
    await transaction.send({ topic, acks: -1, messages: batch })
    const topics = [{ topic: `${prefix}.in`, partitions: [{ partition: 0, offset: `${round + 1}` }] }]
    await transaction.sendOffsets({ consumerGroupId: groupId, topics })
    if (round % 3 === 2) {
      await transaction.abort()
    } else {
      await transaction.commit()
      wanted.push(...texts(batch))
    }
  }
  await producer.disconnect()
  const offsets = await admin.fetchOffsets({ groupId, topics: [`${prefix}.in`] })
  assert.equal(offsets[0].partitions.find((one) => one.partition === 0).offset, '8')
  assert.deepEqual((await read(`${prefix}.reader`, [topic], wanted.length)).sort(), wanted.sort())
}

async function main() {
  const [plain, transacted, input] = ['plain', 'transacted', 'in'].map((name) => `${prefix}.${name}`)
  await zstd.init()
  await admin.connect()
  await administration(plain)
  await admin.createTopics({ topics: [{ topic: transacted, numPartitions: 2 }, { topic: input }] })
  const all = await group(plain, await codecs(plain))
  await transactions(transacted)
  const ends = await admin.fetchTopicOffsets(plain)
  await admin.deleteTopicRecords({
    topic: plain,
    partitions: ends.map(({ partition, high }) => ({ partition, offset: high })),
  })
  for (const { low, high } of await admin.fetchTopicOffsets(plain)) assert.equal(low, high)
  await admin.deleteTopics({ topics: [plain, transacted, input] })
  assert.ok(!(await admin.listTopics()).includes(plain))
  await admin.disconnect()
  console.log(`kafkajs: ${all.length} records, all is as it should be`)
}

main().catch((error) => {
  console.error(`Error: ${error.message}`.slice(0, 1000))
  console.error(error.stack)
  process.exit(1)
})
