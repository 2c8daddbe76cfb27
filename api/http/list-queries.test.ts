import t from 'tap'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'

const DEFINITIONS = 3000

/** Inserts the definitions `0000 old`, `0001 old` and so on, of events and of properties. */
async function plant ({ sql, projectId }: TestApi): Promise<void> {
  await sql`
    INSERT INTO event_definitions (project_id, name, volume_30_day)
    SELECT ${projectId}::integer, to_char(n, 'FM0000') || ' old', n % 100 FROM generate_series(0, ${DEFINITIONS - 1}::integer) AS n`
  await sql`
    INSERT INTO property_definitions (project_id, type, name, property_type)
    SELECT ${projectId}::integer, 'event', to_char(n, 'FM0000') || ' old', 'Numeric' FROM generate_series(0, ${DEFINITIONS - 1}::integer) AS n`
  await sql`
    INSERT INTO event_properties (project_id, event, property)
    SELECT ${projectId}::integer, 'paid', to_char(n, 'FM0000') || ' old' FROM generate_series(0, ${DEFINITIONS - 1}::integer, 3) AS n`
}

/** Adds definitions between the others, as the roll-up does, until stopped; the old ones are seen again meanwhile. */
function keepAdding (sql: Sql, projectId: number): { stop: () => Promise<number> } {
  const stopping = new AbortController()
  let added = 0
  const running = (async () => {
    while (!stopping.signal.aborted) {
      const names = Array.from({ length: 20 }, (_, index) =>
        `${String((added + index) * 7919 % DEFINITIONS).padStart(4, '0')} new ${added}`)
      added += names.length
      await sql`INSERT INTO event_definitions (project_id, name) SELECT ${projectId}::integer, unnest(${names}::text[])`
      await sql`INSERT INTO property_definitions (project_id, type, name) SELECT ${projectId}::integer, 'event', unnest(${names}::text[])`
      await sql`INSERT INTO event_properties (project_id, event, property) SELECT ${projectId}::integer, 'paid', unnest(${names}::text[])`
      await sql`UPDATE event_definitions SET volume_30_day = volume_30_day + 1, last_seen_at = now() WHERE name < '0100'`
    }
  })()
  return {
    async stop () {
      stopping.abort()
      await running
      return added
    }
  }
}

const LISTS = [
  'event_definitions/?limit=100', 'event_definitions/?limit=1000&ordering=-name', 'property_definitions/?limit=100',
  'property_definitions/?limit=1000&event_names=["paid"]'
]

for (const list of LISTS) {
  t.test(`${list}: every one of ${DEFINITIONS} once, in two queries a page, while more are added`, async (t) => {
    const api = await createTestApi(t)
    await plant(api)
    await api.call('GET', `~/${list}`)
    const queries: string[] = []
    api.sql.onStatement = (text) => { queries.push(text) }
    const writer = connectPostgres({ url: api.databaseUrl, max: 1 })
    t.teardown(async () => await writer.end({ timeout: 1 }))
    const adding = keepAdding(writer, api.projectId)

    const names: string[] = []
    let most: string[] = []
    for (let next: string | null = `~/${list}`; next !== null;) {
      queries.length = 0
      const { status, body } = await api.call('GET', next)
      if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
      const ofPage = queries.filter(isAboutThePage)
      if (ofPage.length > most.length) most = ofPage
      names.push(...body.results.map(({ name }: { name: string }) => name))
      next = body.next?.replace(/^http:\/\/[^/]+/, '') ?? null
    }
    const added = await adding.stop()

    t.ok(added > 0, `${added} were added`)
    t.equal(new Set(names).size, names.length, 'none twice')
    t.equal(names.filter((name) => name.endsWith('old')).length, DEFINITIONS, 'none is missing')
    t.equal(most.length, 2, most.join('\n'))
  })
}

/** Opened connections ask for the types of the server; caches of keys, projects and flags are refreshed meanwhile. */
function isAboutThePage (query: string): boolean {
  return !/pg_catalog|pg_type|(personal|project)_api_keys|FROM projects|FROM flag_revisions/.test(query)
}
