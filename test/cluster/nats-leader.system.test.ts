import t from 'tap'
import { PARTITIONS_BUCKET, DEAD_LETTER_STREAM, EVENTS_STREAM, MEMBERS_BUCKET, PERSONS_STREAM } from '../../schema/wire/streams.ts'
import { createRandom } from '../support/random.ts'
import { startSdkLoad } from '../faults/sdk-load.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkCluster, CLUSTER_PROJECT_KEY, readReplicas, startClusterSystem } from './cluster-system.ts'

const REPLICATED = [EVENTS_STREAM, PERSONS_STREAM, DEAD_LETTER_STREAM, `KV_${PARTITIONS_BUCKET}`, `KV_${MEMBERS_BUCKET}`]

/** Nobody answers while there is no leader, and a busy machine answers late. */
const ASK_TIMEOUT_MS = 2000

t.test('loses and doubles nothing when the leaders of events and of batch ranges are killed under load', async (t) => {
  const system = await startClusterSystem(t, { natsNodes: 3, partitions: 2, ingest: 2, pipeline: 2 })
  const { connection, nats } = system
  for (const stream of REPLICATED) {
    const { followers } = await waitFor(async () => await readReplicas(connection, stream))
    t.equal(followers.length, 2, `${stream} has two followers`)
  }
  const load = startSdkLoad({
    ports: system.ingest.map(({ port }) => port), apiKey: CLUSTER_PROJECT_KEY, eventsPerSecond: 500,
    random: createRandom(7), refusableShare: 0
  })
  t.teardown(async () => { await load.stop() })

  for (const stream of [EVENTS_STREAM, `KV_${PARTITIONS_BUCKET}`]) {
    await load.nextAcknowledged()
    const { leader } = await waitFor(async () => await readReplicas(connection, stream))
    await nats.nodes.find(({ name }) => name === leader)!.kill()
    const killedAt = performance.now()
    const sinceKill = (): string => `${((performance.now() - killedAt) / 1000).toFixed(1)} s`
    const isLed = async (each: string): Promise<unknown> => await waitFor(
      async () => (await readReplicas(connection, each, ASK_TIMEOUT_MS)).leader)
    const elected = Promise.all(REPLICATED.map(isLed)).then(sinceKill)
    const uuid = await load.nextAcknowledged()
    const acknowledged = sinceKill()
    await waitFor(
      async () => (await system.select('SELECT 1 FROM events WHERE uuid = {uuid:UUID}', { uuid })).length > 0)
    t.pass(`${leader}, leader of ${stream}, was killed: the next event was acknowledged after ${acknowledged}, and stored after ` +
      `${sinceKill()}; every stream had a leader after ${await elected}`)
    await waitFor(async () => {
      const all = await Promise.all(REPLICATED.map(async (each) => await readReplicas(connection, each)))
      return all.every(({ followers }) => followers.length === 2 && followers.every(({ current }) => current))
    }, { everyMs: 200 })
  }
  await load.stop()

  t.comment(`${load.ledger.acknowledgedEvents} events acknowledged, ` +
    `longest stall ${Math.round(Math.max(...load.ledger.phases.map(({ longestStallMs }) => longestStallMs)))} ms`)
  t.equal(load.ledger.givenUp, 0)
  await checkCluster(t, system, load.ledger)
})
