import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { createNatsOnDemand } from '../../api/events/dead-letters/nats-on-demand.ts'
import { type Captured, runCaptured, startApi } from '../../cli/testing/run-captured.ts'
import { discardPublished, takePublishedEvents } from '../../ingest/testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { createLogger } from '../../platform/logger.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'

/** The blocks of a language of a section of the guide, in order. */
function blocks (section: 'Rules' | 'Schemas', language: string): string[] {
  const guide = readFileSync(path.join(import.meta.dirname, 'rules-and-schemas.md'), 'utf8')
  const text = guide.split('\n## ').find((part) => part.startsWith(`${section}\n`)) ?? ''
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(([, text = '']) => text)
}

/**
 * The words of a command line without `npx millrace` and its comment; quotation marks keep blanks. The id that is 7
 * in a guide is 1 here.
 */
function wordsOf (line: string): string[] {
  const words = line.replace(/ +# .*$/, '').replace('/7/', '/1/').matchAll(/'([^']*)'|(\S+)/g)
  return [...words].map(([, quoted, word]) => quoted ?? word ?? '').slice(2)
}

t.test('the commands and queries of the schemas guide do what it says, in its order', async (t) => {
  const [system, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
  const { connection } = system
  const file = path.join(t.testdir(), 'order-paid.json')
  const nats = createNatsOnDemand({ url: system.nats.url, logger: createLogger({ component: 'test', level: 'silent' }) })
  const { env } = await startApi(t, { clickhouse: clickhouse.client, nats }, system.postgres)
  const commands = blocks('Schemas', 'sh').flatMap((block) => block.trim().split('\n'))
  const run = async (): Promise<Captured> => {
    const line = commands.shift()!
    const captured = await runCaptured(wordsOf(line).map((word) => word === '@order-paid.json' ? `@${file}` : word), env)
    t.equal(captured.code, 0, `${line}: ${captured.err}`)
    return captured
  }
  const send = async (properties: object): Promise<void> => {
    const event = { event: 'order paid', distinct_id: 'd', properties }
    t.equal((await system.post('/batch/', { api_key: PROJECT_KEY, batch: [event] })).status, 200)
  }
  /** Versions that events which do not meet the schema are stored with. */
  const stored = async (): Promise<unknown[]> => {
    await send({ plan: 'gold', seats: 1 })
    return (await takePublishedEvents(connection, clickhouse)).map((event) => event.schema_version)
  }

  const timestamp = new Date(Date.now() - 60_000).toISOString().slice(0, 23)
  await clickhouse.client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: [{ project_id: 1, event: 'order paid', distinct_id: 'd', timestamp, properties: '{"plan":"gold","seats":1}' }]
  })
  t.match(JSON.parse((await run()).out), {
    events: 1, schema: { type: 'object', required: ['plan', 'seats'], properties: { plan: { type: 'string' }, seats: { type: 'integer' } } }
  }, 'infer')
  await writeFile(file, blocks('Schemas', 'json')[0]!)
  t.match(JSON.parse((await run()).out), { id: 1, version: 1, active_version: null }, 'create')
  t.match(JSON.parse((await run()).out), { events: 1, met: 0 }, 'check')
  await run()
  await waitFor(async () => (await stored())[0] === -1)
  await send({ plan: 'pro', seats: 2 })
  await run()
  await waitFor(async () => (await stored()).length === 0)
  await discardPublished(connection)
  t.match((await run()).out, /schema +not_met +1 +order paid +version 1 of the schema is not met: \/plan enum "gold"/, 'letters')
  t.match((await run()).out, /replayed +[1-9]/, 'replay')
  t.match(await takePublishedEvents(connection, clickhouse), [{ event: 'order paid', schema_version: 0 }])
  t.match(JSON.parse((await run()).out), { version: 2, active_version: 1 }, 'change')
  t.match(JSON.parse((await run()).out), { active_version: 2 }, 'activate')
  t.same(commands, [])

  for (const query of blocks('Schemas', 'sql')) await clickhouse.client.query({ query })
})

t.test('the commands of the rules guide do what it says, in its order', async (t) => {
  const [system, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
  const file = path.join(t.testdir(), 'no-test-orders.json')
  await writeFile(file, blocks('Rules', 'json')[0]!)
  const { env } = await startApi(t, { clickhouse: clickhouse.client }, system.postgres)
  const commands = blocks('Rules', 'sh').flatMap((block) => block.trim().split('\n'))
  const run = async (): Promise<Captured> => {
    const line = commands.shift()!
    const captured = await runCaptured(wordsOf(line).map((word) => word === '@no-test-orders.json' ? `@${file}` : word), env)
    t.equal(captured.code, 0, `${line}: ${captured.err}`)
    return captured
  }
  /** How many of an order of a test and one of a customer are stored. */
  const stored = async (): Promise<number> => {
    const batch = ['qa@example.com', 'ann@example.org'].map((email) => ({ event: 'order paid', distinct_id: 'd', properties: { email } }))
    t.equal((await system.post('/batch/', { api_key: PROJECT_KEY, batch })).status, 200)
    return (await takePublishedEvents(system.connection, clickhouse)).length
  }
  const timestamp = new Date(Date.now() - 60_000).toISOString().slice(0, 23)
  await clickhouse.client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: ['qa@example.com', 'ann@example.org'].map((email) =>
      ({ project_id: 1, uuid: randomUUID(), event: 'order paid', distinct_id: 'd', timestamp, properties: JSON.stringify({ email }) }))
  })

  t.match(JSON.parse((await run()).out), { id: 1, version: 1, active_version: null }, 'create')
  t.match(JSON.parse((await run()).out), { events: 2, matched: 1, dropped: 1 }, 'check')
  t.match(JSON.parse((await run()).out), { active_version: 1 }, 'activate')
  await waitFor(async () => await stored() === 1)
  t.same(JSON.parse((await run()).out), { results: [] }, 'counts: the pipeline does not run here')
  t.match(JSON.parse((await run()).out), { active_version: null }, 'disable')
  await waitFor(async () => await stored() === 2)
  t.same(commands, [])

  for (const query of blocks('Rules', 'sql')) await clickhouse.client.query({ query })
})
