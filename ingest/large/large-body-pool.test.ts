import zlib from 'node:zlib'
import t, { type Test } from 'tap'
import { createLogger } from '../../platform/logger.ts'
import { HttpError } from '../../engines/errors.ts'
import type { Admission } from '../capture/take-parsed-body.ts'
import { NO_LIMITS } from '../../test/support/plain-normaliser.ts'
import { createLargeBodyPool, type LargeBodyHooks, type LargeBodyJob, type LargeBodyPool, type LargeBodyResult, type PostponedBody } from './large-body-pool.ts'

/** A pool of one thread, which postpones nothing. */
function createPool (t: Test): { run: (job: LargeBodyJob, hooks: LargeBodyHooks) => Promise<LargeBodyResult> } {
  const pool = openPool(t, 1)
  return {
    async run (job, hooks) {
      const result = await pool.run(job, hooks)
      if ('chunks' in result) throw new Error('the body was postponed')
      return result
    }
  }
}

function openPool (t: Test, threads: number): LargeBodyPool {
  const logger = createLogger({ component: 'test', level: 'silent' })
  const pool = createLargeBodyPool({
    threads, names: NO_LIMITS, readKnownNames: async () => null, logger,
    onUnexpected: (error) => t.fail(String(error))
  })
  // The threads keep no process alive; a server does that otherwise.
  const alive = setInterval(() => {}, 1000)
  t.teardown(async () => {
    clearInterval(alive)
    await pool.close()
  })
  return pool
}

function buildJob (body: unknown, changes: Partial<LargeBodyJob> = {}): LargeBodyJob {
  const text = body instanceof Uint8Array ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const chunk = Buffer.allocUnsafeSlow(text.length)
  chunk.set(text)
  return {
    chunks: [chunk], hints: {}, query: {}, isEngage: false, requestId: 'r', receivedAt: Date.UTC(2026, 10, 21),
    maxDecompressedBytes: 1e6, maxEventBytes: 1e6, partitions: 1, fingerprintKey: null,
    cookielessSalts: new Map(), geoip: null, ...changes
  }
}

const good = { api_key: 'k', batch: [{ event: 'e', distinct_id: 'd' }] }
const allow = async (): Promise<Admission> => ({
  project: { id: 1, anonymizeIps: false }, ip: '', visitor: { address: '', userAgent: '' }
})

t.test('a thread that dies costs its request a 503, and the next one gets a new thread', async (t) => {
  const pool = createPool(t)
  // No request makes such a job: it stands for a bug in the thread.
  const deadly = { ...buildJob(good), hints: null as unknown as LargeBodyJob['hints'] }

  const [died, next] = await Promise.allSettled([
    pool.run(deadly, { admit: allow }), pool.run(buildJob(good), { admit: allow })
  ])

  t.match(died, { status: 'rejected', reason: { status: 503, code: 'overloaded' } })
  t.match(next, { status: 'fulfilled', value: { taken: { projectId: 1, received: 1, dropped: {} } } })
})

t.test('an error of a body or its key ends its job, and the thread continues', async (t) => {
  const pool = createPool(t)
  const unknownKey = new HttpError(401, 'authentication_error', 'invalid_api_key', 'no')

  await t.rejects(pool.run(buildJob(good), { admit: async () => { throw unknownKey } }), unknownKey)
  await t.rejects(pool.run(buildJob('{"batch":[1,'), { admit: allow }), { status: 400, code: 'invalid_json' })
  await t.rejects(pool.run(buildJob({ batch: 5 }), { admit: allow }), { status: 400, code: 'invalid_batch', attr: 'batch' })

  t.match(await pool.run(buildJob(good), { admit: allow }), { taken: { received: 1 } })
})

t.test('bad events of a large body are dropped by their reasons, under engage they are named', async (t) => {
  const pool = createPool(t)
  const body = { api_key: 'k', batch: [{ distinct_id: 'd' }, 'no event', { event: 'e' }] }

  const { taken: { received, dropped } } = await pool.run(buildJob(body), { admit: allow })
  const { taken: engaged } = await pool.run(buildJob(body, { isEngage: true }), { admit: allow })

  t.equal(received, 3)
  t.same(dropped, { missing_event_name: 1, not_an_object: 1, missing_distinct_id: 1 })
  t.same(engaged.dropped, { not_an_object: 1, missing_distinct_id: 1 })
})

t.test('a batch without events is taken, and publishes nothing', async (t) => {
  const { frames, updates, taken } = await createPool(t).run(buildJob({ api_key: 'k', batch: [] }), { admit: allow })

  t.same({ frames, updates, received: taken.received }, { frames: [], updates: [], received: 0 })
})

t.test('updates come joined into messages, in their order, and the size of the body is reported', async (t) => {
  const batch = Array.from({ length: 12_000 }, (_, n) => ({
    event: 'e', distinct_id: `é${n}`, $set: { n }, properties: n % 2000 === 0 ? { $groups: { [`g${n}`]: 'k' } } : {}
  }))
  const body = zlib.gzipSync(JSON.stringify({ api_key: 'k', batch }))
  const inflated: number[] = []

  const { updates } = await createPool(t).run(buildJob(body, { maxDecompressedBytes: 1e7 }), {
    admit: allow, onInflated: (bytes) => inflated.push(bytes)
  })

  t.same(inflated, [Buffer.byteLength(JSON.stringify({ api_key: 'k', batch }))])
  t.ok(updates.length > 1 && updates.length < 10, `${updates.length} messages`)
  t.ok(updates.every(({ payload }) => payload.length <= 524_289 && payload.buffer.byteLength === payload.length))
  const read = updates.flatMap(({ payload }) =>
    JSON.parse(Buffer.from(payload).toString()) as Record<string, unknown>[])
  t.same(read.flatMap(({ set }) => set === undefined ? [] : [(set as { n: number }).n]), batch.map((_, n) => n))
  t.same(updates.flatMap(({ announces }) => announces), [0, 2000, 4000, 6000, 8000, 10_000].map((n) => `g${n}`))
})

t.test('a project leaves the last thread to another, and its body comes back as it was', async (t) => {
  const pool = openPool(t, 2)
  const order: string[] = []
  const take = async (
    name: string, body: unknown, id: number, known: number | null = null
  ): Promise<LargeBodyResult | PostponedBody> => {
    const admit = async (): Promise<Admission> => ({ ...await allow(), project: { id, anonymizeIps: false } })
    const result = await pool.run(buildJob(body, { maxDecompressedBytes: 1e8 }), { admit, sender: 'the same', projectId: known })
    order.push(name)
    return result
  }
  // Both threads are there.
  await Promise.all([take('a', good, 1), take('b', good, 2)])
  order.length = 0
  const { promise: admitted, resolve } = Promise.withResolvers<void>()
  const long = pool.run(
    buildJob({ api_key: 'k', batch: Array(300_000).fill({ event: 'e', distinct_id: 'd' }) }, { maxDecompressedBytes: 1e8 }),
    { admit: async () => { setImmediate(resolve); return await allow() } }
  ).then(() => order.push('long'))
  await admitted

  const postponed = await take('postponed', good, 1)
  const again = take('again', good, 1, 1)
  await take('other', good, 2)
  await Promise.all([long, again])

  t.match(postponed, { projectId: 1 })
  t.equal('chunks' in postponed && Buffer.concat(postponed.chunks).toString(), JSON.stringify(good))
  t.same(order, ['postponed', 'other', 'long', 'again'])
})
