import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pickFreePort } from '../../embedded/supervisor/ports.ts'
import { startTier, type TierName } from '../../embedded/supervisor/start-parts.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { TestContext } from '../support/test-context.ts'
import { waitFor } from '../support/wait-for.ts'

/** Environment of a tier besides its port: its own login to each store. */
export type TierEnv = Record<'NATS_URL' | 'DATABASE_URL' | 'CLICKHOUSE_URL', string> & Record<string, string>

export interface SecuredTiers {
  /** Of ingest, which forwards to the API. */
  url: string
  pipelineUrl: string
  apiUrl: string
  /** Of each tier's log. */
  logFiles: Record<TierName, string>
}

/** Starts one process of each tier, each with an environment of its own; they end with the test. */
export async function startSecuredTiers (
  t: TestContext, envs: Record<TierName, TierEnv>
): Promise<SecuredTiers> {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-secured-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const ports = { ingest: await pickFreePort(), pipeline: await pickFreePort(), api: await pickFreePort() }
  const url = (name: TierName): string => `http://127.0.0.1:${ports[name]}`
  const start = async (name: TierName): Promise<string> => {
    const dataDir = path.join(root, name)
    const part = await startTier({
      name, port: ports[name], host: '127.0.0.1', dataDir, stopTimeoutMs: 9500,
      signal: new AbortController().signal,
      onSpawn: (child) => t.teardown(async () => { await child.stop() }),
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
        MILLRACE_DATA_DIR: dataDir,
        MILLRACE_PORT: String(ports.ingest),
        MILLRACE_PIPELINE_PORT: String(ports.pipeline),
        MILLRACE_API_PORT: String(ports.api),
        MILLRACE_API_URL: url('api'),
        MILLRACE_LOG_LEVEL: 'debug',
        ...envs[name]
      }
    })
    return part.logFile
  }
  const [pipeline, api, ingest] = await Promise.all([start('pipeline'), start('api'), start('ingest')])
  return { url: url('ingest'), pipelineUrl: url('pipeline'), apiUrl: url('api'), logFiles: { ingest, pipeline, api } }
}

export interface WalkOptions {
  /** Of the origin. */
  url: string
  projectKey: string
  personalKey: string
  clickhouse: ClickHouse
  /** As the owner. */
  sql: Sql
}

/**
 * Uses every tier once: events and what they say of a person are stored, a flag is made, decided and deleted, and a
 * definition appears. Resolves when all that came true.
 *
 * @throws naming what did not.
 */
export async function walkAnEvent ({ url, projectKey, personalKey, clickhouse, sql }: WalkOptions): Promise<void> {
  const send = async (path: string, body: unknown, method = 'POST'): Promise<Response> => await fetch(url + path, {
    method,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${personalKey}` },
    body: JSON.stringify(body)
  })
  const expect = (response: Response, status: number): void => {
    if (response.status !== status) throw new Error(`${response.url} answered ${response.status}, not ${status}`)
  }
  expect(await send('/batch/', {
    api_key: projectKey,
    batch: [
      { event: '$identify', distinct_id: 'walker', properties: { $anon_distinct_id: 'nobody', $set: { plan: 'pro' } } },
      { event: 'walked', distinct_id: 'walker', properties: { steps: 3, $groups: { company: 'acme' } } },
      { event: '$groupidentify', distinct_id: 'walker', properties: { $group_type: 'company', $group_key: 'acme', $group_set: { size: 2 } } }
    ]
  }), 200)
  const flag = await send('/api/projects/1/feature_flags/', {
    key: 'walks', filters: { groups: [{ properties: [{ key: 'plan', value: 'pro', type: 'person' }], rollout_percentage: 100 }] }
  })
  expect(flag, 201)
  const { id } = await flag.json() as { id: number }
  await waitFor(async () => {
    const result = await clickhouse.query({ query: "SELECT 1 FROM events WHERE event = 'walked'", format: 'JSONEachRow' })
    return (await result.json()).length === 1
  })
  await waitFor(async () => {
    const answer = await send('/decide/?v=3', { api_key: projectKey, distinct_id: 'walker' })
    return (await answer.json() as { featureFlags?: Record<string, unknown> }).featureFlags?.walks === true
  })
  await waitFor(async () => (await sql`
    SELECT 1 FROM event_definitions WHERE name = 'walked' AND volume_30_day = 1`).length === 1)
  await waitFor(async () => (await sql`SELECT 1 FROM groups WHERE group_key = 'acme'`).length === 1)
  await waitFor(async () => {
    const copies = await clickhouse.query({ query: 'SELECT 1 FROM persons FINAL', format: 'JSONEachRow' })
    return (await copies.json()).length === 1
  })
  expect(await send(`/api/projects/1/feature_flags/${id}/`, { deleted: true }, 'PATCH'), 200)
  const receipt = `${url}/api/projects/1/events/0193a5b2-7c1d-7e8f-9abc-def012345678/receipt/`
  expect(await fetch(receipt, { headers: { authorization: `Bearer ${personalKey}` } }), 200)
  expect(await fetch(`${url}/api/projects/1/dead_letters/`, { headers: { authorization: `Bearer ${personalKey}` } }), 200)
}

/**
 * Watches live events. Resolves when an event was seen to arrive.
 *
 * @throws when none is.
 */
export async function watchAnEvent ({ url, projectKey, personalKey }: Pick<WalkOptions, 'url' | 'projectKey' | 'personalKey'>): Promise<void> {
  const ended = new AbortController()
  const feed = await fetch(`${url}/api/projects/1/events/live`, { headers: { authorization: `Bearer ${personalKey}` }, signal: ended.signal })
  let seen = ''
  const read = (async () => {
    for await (const text of feed.body!.pipeThrough(new TextDecoderStream())) seen += text
    // Ended by us.
  })().catch(() => {})
  try {
    await waitFor(async () => {
      await fetch(`${url}/batch/`, { method: 'POST', body: JSON.stringify({ api_key: projectKey, batch: [{ event: 'watched', distinct_id: 'w' }] }) })
      return seen.includes('"event":"watched"')
    })
  } finally {
    ended.abort()
    await read
  }
}
