import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { countEvents, startTestStores, waitUntilStored } from '../../pipeline/testing/start-test-partition.ts'
import { createTestPostgres } from '../support/test-stores.ts'
import { waitFor } from '../support/wait-for.ts'
import { makeRelease, thisRelease } from './make-release.ts'

const API_KEY = 'phc_upgrade'

/** The next release: a column more in `events` and in its frames, and a table that is written all the time altered. */
const NEXT = {
  migrations: {
    postgres: { '9000_add_owner.sql': "ALTER TABLE event_definitions ADD COLUMN owner text NOT NULL DEFAULT '';\n" },
    clickhouse: { '9000_add_plan.sql': "ALTER TABLE events {{on_cluster}} ADD COLUMN IF NOT EXISTS plan String COMMENT 'Plan'" }
  },
  column: { name: 'plan', promotes: 'plan' }
}

t.test('an upgrade to the next release under load, process by process, loses nothing and counts nothing twice', async (t) => {
  const stores = await startTestStores(t)
  const { sql, url: databaseUrl } = await createTestPostgres(t)
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-test-upgrade-'))
  t.teardown(async () => { await rm(dataDir, { recursive: true, force: true }) })
  await sql`INSERT INTO projects (id, name) VALUES (1, 'Shop')`
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES (${API_KEY}, 1, 'project')`
  const env = {
    NATS_URL: stores.nats.url,
    CLICKHOUSE_URL: stores.clickhouse.url,
    DATABASE_URL: databaseUrl,
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_BATCH_MAX_AGE_MS: '50', MILLRACE_ROLL_UP_INTERVAL_MS: '200'
  }
  const [old, next] = [thisRelease(t), await makeRelease(t, NEXT)]
  const oldPipeline = await old.start('pipeline', env)
  const oldIngest = await old.start('ingest', env)
  const load = startLoad()
  load.sendTo(oldIngest.url)
  await load.more(500)

  const migrated = await next.migrate(env)
  t.match(migrated, { code: 0, output: 'applied postgres/9000_add_owner, clickhouse/9000_add_plan\n' })
  await load.more(500)
  const newPipeline = await next.start('pipeline', env)
  await oldPipeline.end()
  await load.more(500)
  const newIngest = await next.start('ingest', env)
  load.sendTo(newIngest.url)
  await oldIngest.end()
  await load.more(500)
  const acknowledged = await load.stop()
  await waitUntilStored(stores)

  const select = async <T>(query: string): Promise<T[]> =>
    await (await stores.clickhouse.client.query({ query, format: 'JSONEachRow' })).json<T>()
  const uuids = await select<{ uuid: string }>('SELECT toString(uuid) AS uuid FROM events')
  const stored = new Set(uuids.map(({ uuid }) => uuid))
  t.same([...acknowledged].filter((uuid) => !stored.has(uuid)), [], 'none is lost')
  t.match(await countEvents(stores), { rows: stored.size, uuids: stored.size, volume: stored.size }, 'none is there twice')
  t.match(await select('SELECT plan, min(received_at) AS first FROM events GROUP BY plan ORDER BY first'),
    [{ plan: '' }, { plan: 'pro' }], 'the new column is empty for what came before')
  // A busy machine may be late at first.
  await waitFor(async () => (await (await fetch(`${newPipeline.url}/_health`)).json() as { status: string }).status === 'ok')
  await waitFor(async () => {
    const [definition] = await sql`SELECT volume_30_day AS volume, owner FROM event_definitions WHERE name = 'order paid'`
    return definition?.volume === stored.size && definition?.owner === ''
  })
})

/** Sends small batches one after the other, and those that get no 200 again, as SDKs do. */
function startLoad (): {
  sendTo: (url: string) => void
  /** Resolves when a number of further events are acknowledged. */
  more: (events: number) => Promise<void>
  stop: () => Promise<Set<string>>
} {
  const acknowledged = new Set<string>()
  const stopped = new AbortController()
  let url = ''

  async function send (uuids: readonly string[]): Promise<void> {
    const batch = uuids.map((uuid) => ({ event: 'order paid', uuid, distinct_id: 'jo', properties: { plan: 'pro' } }))
    for (;;) {
      const answer = await fetch(`${url}/batch/`, { method: 'POST', body: JSON.stringify({ api_key: API_KEY, batch }) })
        .catch(() => null)
      await answer?.text().catch(() => '')
      if (answer?.status === 200) break
      await delay(20)
    }
    for (const uuid of uuids) acknowledged.add(uuid)
  }

  async function run (): Promise<void> {
    while (!stopped.signal.aborted) {
      if (url !== '') await send(Array.from({ length: 10 }, () => crypto.randomUUID()))
      await delay(10)
    }
  }

  const running = Promise.all([run(), run()])
  return {
    sendTo (next) { url = next },
    async more (events) {
      const wanted = acknowledged.size + events
      await waitFor(() => acknowledged.size >= wanted)
    },
    async stop () {
      stopped.abort()
      await running
      return acknowledged
    }
  }
}
