// The kit's producer for kafkajs, in several modes one after the other: --mode plain,idempotent,transactional.
// Prints one line for each mode: {"mode":M,"records":N,"seconds":S} or {"mode":M,"error":TEXT,"seconds":S}.
'use strict'
const { parseArgs } = require('node:util')
const { Kafka, logLevel, CompressionTypes } = require('kafkajs')
const { values: o } = parseArgs({
  options: {
    bootstrap: { type: 'string' },
    topic: { type: 'string' },
    mode: { type: 'string', default: 'plain' },
    records: { type: 'string', default: '100' },
    codec: { type: 'string', default: 'none' }
  }
})

async function produce (kafka, mode) {
  const producer = kafka.producer({
    idempotent: mode !== 'plain',
    maxInFlightRequests: 1,
    retry: { retries: 3 },
    ...(mode === 'transactional' ? { transactionalId: `kit-node-${process.pid}` } : {})
  })
  await producer.connect()
  try {
    const to = mode === 'transactional' ? await producer.transaction() : producer
    const messages = []
    for (let i = 0; i < Number(o.records); i++) messages.push({ key: `key-${i % 10}`, value: JSON.stringify({ from: `kafkajs-${mode}`, i }) })
    await to.send({ topic: o.topic, messages, acks: -1, compression: o.codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None })
    if (mode === 'transactional') await to.commit()
  } finally {
    await producer.disconnect()
  }
}

async function main () {
  const kafka = new Kafka({ brokers: o.bootstrap.split(','), clientId: 'kit', logLevel: logLevel.NOTHING })
  for (const mode of o.mode.split(',')) {
    const start = Date.now()
    const line = { mode }
    try {
      await produce(kafka, mode)
      line.records = Number(o.records)
    } catch (e) {
      line.error = String(e)
    }
    console.log(JSON.stringify({ ...line, seconds: (Date.now() - start) / 1000 }))
  }
  process.exit(0)
}

main()
