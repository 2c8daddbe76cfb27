import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { ensureStreams, openBucket } from '../../platform/nats/prepare-jetstream.ts'
import { retryAtStart } from '../../pipeline/stream/retry-at-start.ts'
import { PARTITIONS_BUCKET, EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { startNatsCluster } from '../faults/system/nats-cluster.ts'
import { supervise, type SupervisedPart } from '../faults/system/supervise.ts'
import { waitFor } from '../support/wait-for.ts'
import { readReplicas } from './cluster-system.ts'

t.test('streams and buckets that were made with one replica get three when they are asked for', async (t) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-replicas-'))
  const parts: SupervisedPart[] = []
  let closeCluster = async (): Promise<void> => {}
  t.teardown(async () => {
    await Promise.all(parts.map((part) => part.stop()))
    await closeCluster()
    await rm(dataDir, { recursive: true, force: true })
  })
  const cluster = await startNatsCluster({ dataDir, nodes: 3 }, async (name, start) => {
    const giveUp = new AbortController().signal
    const part = await supervise({ name, start, giveUp, onSurprise: (what) => t.fail(what) })
    parts.push(part)
    return part
  })
  closeCluster = cluster.close
  const logger = pino({ level: 'silent' })
  const connection = await connectNats({ url: cluster.url, name: 'test', logger, waitForServer: true })
  t.teardown(async () => { await connection.close() })
  const open = async (replicas: number): Promise<void> => {
    await retryAtStart(async () => {
      await ensureStreams(connection, { replicas, eventsMaxBytes: 1e7, deadLetterMaxBytes: 1e7 })
    }, logger)
    const bucket = await retryAtStart(
      async () => await openBucket(connection, PARTITIONS_BUCKET, { replicas }), logger)
    await retryAtStart(async () => await bucket.put('kept', 'a record'), logger)
  }

  await open(1)
  t.same((await readReplicas(connection, `KV_${PARTITIONS_BUCKET}`)).followers, [])
  await open(3)

  for (const stream of [EVENTS_STREAM, `KV_${PARTITIONS_BUCKET}`]) {
    await waitFor(async () => {
      const { followers } = await readReplicas(connection, stream)
      return followers.length === 2 && followers.every(({ current }) => current)
    })
  }
  t.pass('both are on all three servers')
})
