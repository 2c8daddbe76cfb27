import t, { type Test } from 'tap'
import { startTcpFaultProxy, type TcpFault, type TcpFaultProxy } from '../../../test/faults/system/tcp-fault-proxy.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { addFlags, ask, createTestDecide, type TestAnswer, type TestDecide } from '../../testing/create-test-decide.ts'

/** Flag clients give up after 3 s. */
const CLIENT_TIMEOUT_MS = 3000

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

async function askTimed (decide: TestDecide, body: object): Promise<TestAnswer & { tookMs: number }> {
  const started = performance.now()
  const answer = await ask(decide, '/flags/?v=2', { distinct_id: 'u1', ...body })
  return { ...answer, tookMs: performance.now() - started }
}

await t.test('an outage delays few requests: while it lasts the others do not wait', async (t) => {
  const { decide, proxy } = await createBehindProxy(t)
  proxy.set('stall')
  await Promise.all([1, 2, 3].map(async () => await askTimed(decide, {})))

  const startedAt = performance.now()
  const times: number[] = []
  for (let i = 0; i < 50; i++) times.push((await askTimed(decide, {})).tookMs)

  // One looks whether Postgres is back, and the next 1.8 s later: 0.8 s of waiting and a pause of one.
  const mayWait = 1 + Math.floor((performance.now() - startedAt) / 1800)
  const waited = times.filter((ms) => ms > 400).length
  t.ok(waited <= mayWait, `${waited} of 50 waited, ${mayWait} may`)
  proxy.set('pass')
})

// Each mostly waits, for timeouts and for what tries again.
t.jobs = 3
for (const fault of ['refuse', 'stall', 'tear answers'] satisfies TcpFault[]) {
  t.test(`while Postgres is unavailable (${fault}) nothing is a 5xx and no partial set looks whole`, async (t) => {
    const { decide, proxy } = await createBehindProxy(t)
    const healthy = await askTimed(decide, {})
    t.match(healthy, { status: 200, body: { errorsWhileComputingFlags: false } })
    t.equal(Object.keys(healthy.body.flags).length, 3)

    proxy.set(fault)
    for (let i = 0; i < 8; i++) {
      const { status, body, tookMs } = await askTimed(decide, {})
      t.equal(status, 200)
      t.ok(tookMs < CLIENT_TIMEOUT_MS, `${Math.round(tookMs)} ms`)
      t.equal(body.errorsWhileComputingFlags, true)
      t.match(body.flags.plan, { enabled: false, failed: true, reason: { code: 'database_error' } })
      t.match(body.flags.sticky, { enabled: false, failed: true })
      t.same(body.flags.rollout, healthy.body.flags.rollout)
    }
    t.match(await askTimed(decide, { person_properties: { plan: 'pro' }, flag_keys_to_evaluate: ['plan'] }),
      { status: 200, body: { errorsWhileComputingFlags: false, flags: { plan: { enabled: true } } } })
    const v1 = await ask(decide, '/decide', { distinct_id: 'u1' })
    t.match(v1, { status: 200, body: { errorComputingFlags: true } })
    // Keys read a moment ago are taken for all there are.
    await waitFor(async () => {
      const { status, body } = await ask(decide, '/decide', { api_key: 'phc_unknown', distinct_id: 'u1' })
      return status === 503 && body.type === 'server_error' && body.code === 'fetch_team_fail'
    }, { timeoutMs: 3000 })

    proxy.set('pass')
    await waitFor(async () => (await askTimed(decide, {})).body.errorsWhileComputingFlags === false,
      { timeoutMs: 25_000 })
    await decide.sql`UPDATE feature_flags SET active = false WHERE key = 'rollout'`
    await waitFor(async () => (await askTimed(decide, {})).body.flags.rollout.reason.code === 'flag_disabled',
      { timeoutMs: 10_000 })
  })
}
