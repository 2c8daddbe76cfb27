import t, { type Test } from 'tap'
import { startTcpFaultProxy, type TcpFault, type TcpFaultProxy } from '../../../test/faults/system/tcp-fault-proxy.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { addFlags, ask, createTestDecide, type TestAnswer, type TestDecide } from '../../testing/create-test-decide.ts'

/** A reading of a store that does not answer begins at most so often: its time-out, and a pause. */
const READING_MS = 1800

async function createBehindProxy (t: Test): Promise<{ decide: TestDecide, proxy: TcpFaultProxy }> {
  let proxy: TcpFaultProxy | undefined
  const decide = await createTestDecide(t, {
    via: async (url) => {
      const address = new URL(url)
      proxy = await startTcpFaultProxy({ port: Number(address.port) })
      address.hostname = '127.0.0.1'
      address.port = String(proxy.port)
      return address.href
    }
  })
  t.teardown(async () => await proxy!.close())
  await addFlags(decide, [
    { key: 'rollout', filters: { groups: [{ rollout_percentage: 50 }] } },
    { key: 'plan', filters: { groups: [{ properties: [{ key: 'plan', value: 'pro', type: 'person' }] }] } },
    { key: 'sticky', filters: { groups: [{ rollout_percentage: 50 }] }, ensure_experience_continuity: true }
  ])
  return { decide, proxy: proxy! }
}

async function askFlags (decide: TestDecide, body: object): Promise<TestAnswer> {
  return await ask(decide, '/flags/?v=2', { distinct_id: 'u1', ...body })
}

await t.test('an outage delays few requests: while it lasts the others do not wait', async (t) => {
  const { decide, proxy } = await createBehindProxy(t)
  proxy.set('stall')
  await Promise.all([1, 2, 3].map(async () => await askFlags(decide, {})))

  const readings = (): number => decide.reads.facts + decide.reads.hashKeys
  const [startedAt, before] = [performance.now(), readings()]
  for (let i = 0; i < 50; i++) await askFlags(decide, {})

  // One looks whether Postgres is back; the others go on without it.
  const mayWait = 2 + Math.floor((performance.now() - startedAt) / READING_MS)
  const waited = readings() - before
  t.ok(waited <= mayWait, `${waited} of 50 waited, ${mayWait} may`)
  proxy.set('pass')
})

// Each mostly waits, for timeouts and for what tries again.
t.jobs = 3
for (const fault of ['refuse', 'stall', 'tear answers'] satisfies TcpFault[]) {
  t.test(`while Postgres is unavailable (${fault}) nothing is a 5xx and no partial set looks whole`, async (t) => {
    const { decide, proxy } = await createBehindProxy(t)
    const healthy = await askFlags(decide, {})
    t.match(healthy, { status: 200, body: { errorsWhileComputingFlags: false } })
    t.equal(Object.keys(healthy.body.flags).length, 3)

    proxy.set(fault)
    for (let i = 0; i < 8; i++) {
      const { status, body } = await askFlags(decide, {})
      t.equal(status, 200)
      t.equal(body.errorsWhileComputingFlags, true)
      t.match(body.flags.plan, { enabled: false, failed: true, reason: { code: 'database_error' } })
      t.match(body.flags.sticky, { enabled: false, failed: true })
      t.same(body.flags.rollout, healthy.body.flags.rollout)
    }
    t.match(await askFlags(decide, { person_properties: { plan: 'pro' }, flag_keys_to_evaluate: ['plan'] }),
      { status: 200, body: { errorsWhileComputingFlags: false, flags: { plan: { enabled: true } } } })
    const v1 = await ask(decide, '/decide', { distinct_id: 'u1' })
    t.match(v1, { status: 200, body: { errorComputingFlags: true } })
    // Keys read a moment ago are taken for all there are.
    await waitFor(async () => {
      const { status, body } = await ask(decide, '/decide', { api_key: 'phc_unknown', distinct_id: 'u1' })
      return status === 503 && body.type === 'server_error' && body.code === 'fetch_team_fail'
    })

    proxy.set('pass')
    await waitFor(async () => (await askFlags(decide, {})).body.errorsWhileComputingFlags === false)
    await decide.sql`UPDATE feature_flags SET active = false WHERE key = 'rollout'`
    await waitFor(async () => (await askFlags(decide, {})).body.flags.rollout.reason.code === 'flag_disabled')
  })
}
