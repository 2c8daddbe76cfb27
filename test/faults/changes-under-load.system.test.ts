import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { createRandom } from '../support/random.ts'
import { PATIENCE_MS, waitFor } from '../support/wait-for.ts'
import { auditCounts, auditEvents } from './audit/audit-events.ts'
import { waitUntilDrained } from './audit/wait-until-recovered.ts'
import { describeFailures } from './load-ledger.ts'
import { auditSchemaVersions, type SchemaSystem } from './schema-changes.ts'
import { startSdkLoad } from './sdk-load.ts'
import { FAULT_PROJECT_KEY, openFaultSystem } from './system/fault-system.ts'

/** A system whose ingest processes check by these versions; null: it answers nothing but errors. */
async function pretend (
  t: Test, versions: readonly (number | null)[], counts: { unchecked: number, unmet: number, unknown: number }
): Promise<SchemaSystem> {
  const checkedBy = new Map<string, number>()
  const ingest = await Promise.all(versions.map(async (version, index) => {
    const server = createServer((request, response) => {
      void json(request).then((body) => {
        const { batch: [event] } = body as { batch: [{ uuid: string }] }
        if (version !== null) checkedBy.set(event.uuid, version)
        response.writeHead(version === null ? 503 : 200).end('{}')
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    return { name: `ingest ${index}`, port: (server.address() as AddressInfo).port }
  }))
  const select: SchemaSystem['select'] = async <T>(_: string, params: Record<string, unknown> = {}) =>
    ('uuid' in params ? [{ version: -checkedBy.get(String(params.uuid))! }] : [counts]) as T[]
  return { ingest, select, sql: async () => [{ active: 7, newest: 8 }] } as unknown as SchemaSystem
}

const NONE = { unchecked: 0, unmet: 0, unknown: 0 }

t.test('every ingest process has to have the active version', async (t) => {
  t.same(await auditSchemaVersions(await pretend(t, [7, 7], NONE)), {
    active: 7, versions: [{ process: 'ingest 0', version: 7 }, { process: 'ingest 1', version: 7 }], problems: []
  })
  const { problems } = await auditSchemaVersions(await pretend(t, [7, 6, null], NONE), { timeoutMs: 100 })
  t.same(problems, [
    'ingest 1 has version 6 of the schema, but version 7 is active', 'ingest 2 has version none of the schema, but version 7 is active'
  ])
})

t.test('every event has to be checked, by a version that there is, and to meet it', async (t) => {
  const { problems } = await auditSchemaVersions(await pretend(t, [7], { unchecked: 1, unmet: 2, unknown: 3 }))
  t.match(problems, [/^1 events were stored without a check/, /^2 events do not meet/, /^3 events were checked by a version/])
  t.equal(problems.length, 3)
})

/** What a tier that is asked to end promises, in milliseconds. */
const MAX_END_MS = 10_000

t.test('a rolling restart of two ingest processes on one port and two pipeline processes fails no request', async (t) => {
  const { signal } = new AbortController()
  await using opened = await openFaultSystem({ signal, sharedPort: true })
  const { system } = opened
  const { ingest, pipeline } = system
  // Nobody in between tries another process: each request that fails is one that a client sees.
  const load = startSdkLoad({
    ports: [ingest[0].port], apiKey: FAULT_PROJECT_KEY, eventsPerSecond: 1000, batchSize: 10, random: createRandom(1)
  })
  const tookMs: Record<string, number> = {}
  try {
    await load.nextAcknowledged()
    for (const part of [...ingest, ...pipeline]) tookMs[part.name] = await part.restart()
    await load.nextAcknowledged()
  } finally {
    await load.stop()
  }
  await waitUntilDrained(system, { timeoutMs: PATIENCE_MS, signal })
  const audit = await auditEvents(system, load.ledger)

  t.comment(`ended in ${JSON.stringify(tookMs)} ms, ${load.ledger.acknowledgedEvents} events acknowledged`)
  t.ok(load.ledger.acknowledgedEvents > 2000)
  t.same(load.ledger.phases.map(describeFailures), [''], 'no request failed')
  t.same(Object.entries(tookMs).filter(([, ms]) => ms > MAX_END_MS), [], 'each ended in time')
  t.same([audit.lost.size, audit.duplicated.size, audit.strangers], [0, 0, 0])
  await waitFor(async () => (await auditCounts(system)).length === 0, { everyMs: 500 })
})
