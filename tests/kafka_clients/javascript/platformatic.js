// What a program of @platformatic/kafka does: administration, codecs, groups of both protocols that stop and go on, transactions.
//
// Arguments: bootstrap servers, prefix of topics and groups.
'use strict'
const assert = require('node:assert/strict')
const {
  Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, Producer, stringDeserializers, stringSerializers,
} = require('@platformatic/kafka')

const [servers, prefix] = process.argv.slice(2)
const base = { clientId: 'platformatic', bootstrapBrokers: [servers] }
const admin = new Admin(base)

const records = (topic, start, end, word) =>
  Array.from({ length: end - start }, (_, i) => ({
    topic,
    key: `k${start + i}`,
    value: `${word} ${start + i} ${'x'.repeat((start + i) % 300)}`,
    headers: { number: `${start + i}` },
  }))

const texts = (sent) => sent.map(({ key, value, headers }) => `${key}|${value}|${headers.number}`)

async function produce(messages, more = {}) {
  const producer = new Producer({ ...base, serializers: stringSerializers })
  await producer.send({ messages, ...more })
  await producer.close()
  return texts(messages)
}

// Reads in a group until `count` records came and 2 s brought no more; commits what it has seen.
async function read(groupId, topic, count, more = {}) {
  const consumer = new Consumer({ ...base, groupId, deserializers: stringDeserializers, maxWaitTime: 500, autocommit: false, ...more })
  const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest' })
  const seen = []
  const ends = new Map()
  let last = Date.now()
  stream.on('data', (message) => {
    seen.push(`${message.key}|${message.value}|${message.headers.get('number')}`)
    ends.set(message.partition, message.offset + 1n)
    last = Date.now()
  })
  let failure
  stream.on('error', (error) => { failure = error })
  const begun = Date.now()
  while (seen.length < count || Date.now() - last < 2000) {
    if (failure) throw failure
    if (Date.now() - begun > 60000) throw new Error(`${seen.length} of ${count} records in ${groupId}`)
    await new Promise((done) => setTimeout(done, 100))
  }
  const offsets = [...ends].map(([partition, offset]) => ({ topic, partition, offset, leaderEpoch: 0 }))
  await consumer.commit({ offsets })
  await stream.close()
  await consumer.close(true)
  return seen
}

async function expectRecords(wanted, ...reading) {
  assert.deepEqual((await read(...reading)).sort(), [...wanted].sort())
}

async function administration(topic) {
  await admin.createTopics({ topics: [topic], partitions: 2, replicas: 1, configs: [{ name: 'retention.ms', value: '86400000' }] })
  await admin.createPartitions({ topics: [{ name: topic, count: 3, assignments: null }] })
  assert.ok((await admin.listTopics()).includes(topic))
  const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }
  const configs = [{ name: 'retention.ms', value: '3600000', configOperation: IncrementalAlterConfigOperationTypes.SET }]
  await admin.incrementalAlterConfigs({ resources: [{ ...resource, configs }] })
  let value
  for (let tries = 0; value !== '3600000' && tries < 50; tries++) { // a broker learns of it a little later
    await new Promise((done) => setTimeout(done, 100))
    const described = await admin.describeConfigs({ resources: [{ ...resource, configurationKeys: ['retention.ms'] }] })
    value = described[0].configs[0].value
  }
  assert.equal(value, '3600000')
}

async function groups(topic, groupProtocol) {
  const groupId = `${prefix}.${groupProtocol}`
  const wanted = []
  for (const compression of ['none', 'gzip', 'snappy', 'lz4']) {
    for (const idempotent of [false, true]) {
      const word = `${groupProtocol} ${compression} ${idempotent}`
      wanted.push(...(await produce(records(topic, 0, 50, word), { compression, idempotent })))
    }
  }
  await expectRecords(wanted, groupId, topic, wanted.length, { groupProtocol })
  const later = await produce(records(topic, 0, 60, 'later'))
  await expectRecords(later, groupId, topic, later.length, { groupProtocol })
  assert.ok((await admin.listGroups({ types: [groupProtocol] })).has(groupId))
  const [{ topics }] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
  const committed = topics[0].partitions.reduce((sum, one) => sum + Number(one.committedOffset), 0)
  assert.equal(committed, wanted.length + later.length)
  await admin.deleteGroups({ groups: [groupId] })
  assert.ok(!(await admin.listGroups({ types: [groupProtocol] })).has(groupId))
  return committed
}

// One transaction is aborted, as the consumer leaves out but the last one of several; each has the offsets of what it has read.
async function transactions(input, output) {
  const given = records(input, 0, 90, 'transaction')
  await produce(given)
  const groupId = `${prefix}.transfer`
  const consumer = new Consumer({ ...base, groupId, deserializers: stringDeserializers, maxWaitTime: 500, autocommit: false })
  const stream = await consumer.consume({ topics: [input], mode: 'earliest' })
  const producer = new Producer({
    ...base, idempotent: true, transactionalId: `${prefix}.id`, serializers: stringSerializers, strict: true,
  })
  const wanted = []
  let batch = []
  let round = 0
  for await (const message of stream) {
    batch.push(message)
    if (batch.length < 10) continue
    const transaction = await producer.beginTransaction()
    await transaction.addConsumer(consumer)
    const messages = batch.map(({ key, value, headers }) => ({ topic: output, key, value, headers: Object.fromEntries(headers) }))
    await transaction.send({ messages })
    for (const one of batch) await transaction.addOffset(one)
    if (round === 4) {
      await transaction.abort()
    } else {
      await transaction.commit()
      wanted.push(...texts(messages))
    }
    batch = []
    if (++round === 9) break
  }
  await stream.close()
  await consumer.close(true)
  await producer.close()
  await expectRecords(wanted, `${prefix}.reader`, output, wanted.length, { isolationLevel: 1 })
  const [{ topics }] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
  assert.ok(topics[0].partitions.some((one) => one.committedOffset > 0n))
}

async function main() {
  const [plain, input, output] = ['plain', 'in', 'out'].map((name) => `${prefix}.${name}`)
  await administration(plain)
  await admin.createTopics({ topics: [input, output], partitions: 2, replicas: 1 })
  await groups(plain, 'classic')
  await admin.deleteTopics({ topics: [plain] })
  const another = `${plain}.2`
  await admin.createTopics({ topics: [another], partitions: 3, replicas: 1 })
  const all = await groups(another, 'consumer')
  await transactions(input, output)
  const ask = (timestamp) => ({ topics: [{ name: another, partitions: [0, 1, 2].map((partitionIndex) => ({ partitionIndex, timestamp })) }] })
  const [{ partitions: ends }] = await admin.listOffsets(ask(-1n))
  assert.equal(ends.reduce((sum, one) => sum + Number(one.offset), 0), all)
  await admin.deleteRecords({ topics: [{ name: another, partitions: ends.map((one) => ({ partition: one.partitionIndex, offset: one.offset })) }] })
  assert.deepEqual(
    (await admin.listOffsets(ask(-2n)))[0].partitions.map((one) => one.offset),
    ends.map((one) => one.offset),
  )
  await admin.deleteTopics({ topics: [another, input, output] })
  await admin.close()
  console.log('platformatic: all is as it should be')
}

main().catch((error) => {
  console.error(`Error: ${error.message} ${JSON.stringify(error.errors?.map((one) => one.message + (one.errors || []).map((e) => e.message)))}`.slice(0, 1000))
  console.error(error.stack)
  process.exit(1)
})
