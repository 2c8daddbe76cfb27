import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { type Captured, runCaptured, startApi } from '../../cli/testing/run-captured.ts'
import { takePublishedEvents } from '../../ingest/testing/read-published-events.ts'
import { PROJECT_KEY, startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'

const GUIDE = readFileSync(path.join(import.meta.dirname, 'rules.md'), 'utf8')

/** The blocks of a language, in order. */
function blocks (language: string): string[] {
  return [...GUIDE.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(([, text = '']) => text)
}

/** The words of a command line without `npx millrace`; quotation marks keep blanks. */
function wordsOf (line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '').slice(2)
}

t.test('the commands of the guide do what it says, in its order', async (t) => {
  const [system, clickhouse] = await Promise.all([startTestIngest(t), createTestClickHouse(t)])
  const file = path.join(t.testdir(), 'no-test-orders.json')
  await writeFile(file, blocks('json')[0]!)
  const { env } = await startApi(t, { clickhouse: clickhouse.client }, system.postgres)
  const commands = blocks('sh').flatMap((block) => block.trim().split('\n'))
  const run = async (): Promise<Captured> => {
    const line = commands.shift()!
    const captured = await runCaptured(wordsOf(line).map((word) => word === 'no-test-orders.json' ? file : word), env)
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

  t.match((await run()).out, /version +1\nactive_version +-\n/, 'put')
  t.match((await run()).out, /^events +2\nmatched +1\ndropped +1\n/, 'check')
  t.match((await run()).out, /^events +2\nmatched +1\ndropped +1\n/, 'check of a draft')
  t.match((await run()).out, /active_version +1\n/, 'activate')
  await waitFor(async () => await stored() === 1)
  t.match((await run()).out, /no test orders +10 +1 +1 +0 +0 +0/, 'list')
  t.same(JSON.parse((await run()).out), JSON.parse(blocks('json')[0]!), 'show')
  t.match((await run()).out, /active_version +-\n/, 'disable')
  await waitFor(async () => await stored() === 2)
  t.same(commands, [])
})
