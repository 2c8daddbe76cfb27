import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { startNatsCluster } from '../../test/faults/system/nats-cluster.ts'
import { supervise } from '../../test/faults/system/supervise.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createLogger } from '../logger.ts'
import { connectNats } from './connect-nats.ts'
import { LeaderlessError, readStreamInfo } from './stream-info.ts'

t.test('a server that was cut off speaks for no stream, as leader and later as a server without one', async (t) => {
  const surprises: string[] = []
  const giveUp = new AbortController()
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-nats-'))
  // Not the folder of the runner, which is removed while the servers still write.
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true }) })
  const cluster = await startNatsCluster({ dataDir, nodes: 3 }, async (name, start) => {
    const part = await supervise({ name, start, onSurprise: (what) => surprises.push(what), giveUp: giveUp.signal })
    t.teardown(async () => await part.stop())
    return part
  })
  t.teardown(async () => { await cluster.close() })
  const managers = await Promise.all(cluster.nodes.map(async ({ port }) => {
    const connection = await connectNats({ url: `nats://127.0.0.1:${port}`, name: 'test', logger: createLogger({ component: 'test', level: 'silent' }) })
    t.teardown(async () => await connection.close())
    return await jetstreamManager(connection, { checkAPI: false, timeout: 1000 })
  }))
  await waitFor(async () => await managers[0]!.streams.add({ name: 'TEST', subjects: ['test'], num_replicas: 3 }).catch(() => null))
  const [before] = await Promise.all([managers[0]!, managers[1]!].map(async (manager) =>
    await waitFor(async () => await readStreamInfo(manager, 'TEST').catch(() => null))))
  // Nothing is published meanwhile: heartbeats are all that the servers hear of each other.
  let unknown = 0
  for (let ask = 0; ask < 20; ask++) {
    // One may be late on a busy machine.
    await readStreamInfo(managers[1]!, 'TEST').catch(() => { unknown++ })
    await delay(200)
  }
  t.ok(unknown < 10, `no answer to ${unknown} of 20`)
  const leader = cluster.nodes.findIndex(({ name }) => name === before!.cluster?.leader)
  const others = managers.filter((_, index) => index !== leader)

  for (const route of cluster.nodes[leader]!.routes) route.set('refuse')
  await waitFor(async () => await readStreamInfo(managers[leader]!, 'TEST').then(() => false, (error) => error instanceof LeaderlessError))
  t.equal((await managers[leader]!.streams.info('TEST')).cluster?.leader, before!.cluster?.leader, 'it still answers as the leader')
  const after = await waitFor(async () => await readStreamInfo(others[0]!, 'TEST').catch(() => null))
  t.not(after.cluster?.leader, before!.cluster?.leader)

  const alone = await waitFor(async () => {
    const info = await managers[leader]!.streams.info('TEST').catch(() => null)
    return info?.cluster?.leader ? null : info
  }, { everyMs: 500 })
  t.equal(alone.config.name, 'TEST', 'it answers without a leader')
  await t.rejects(readStreamInfo(managers[leader]!, 'TEST'), { code: 'MILLRACE_STREAM_LEADERLESS', action: 'retry' })
  t.same(surprises, [])
})
