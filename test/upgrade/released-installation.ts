/**
 * What a release left: a backup, and the data directory that it was made of, with what each question about them is
 * answered. Every later state must restore the one and open the other: `released-installation.system.test.ts`.
 *
 *     npx node test/upgrade/released-installation.ts      # once for each release: writes test/upgrade/<version>/
 */
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { connectClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import { createLogger } from '../../platform/logger.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'
import { readVersion } from '../../schema/version.ts'
import { runCaptured } from '../../cli/testing/run-captured.ts'
import { startStack, type Stack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { ANSWERS, BACKUP, DATA_DIR, fileOf, packFolder } from './release-files.ts'

/** A store or the API, and the question to it. */
export type Question = ['clickhouse' | 'postgres' | 'api', string]

export type Answer = [...Question, unknown]

/** Of the data directory: of this machine alone, or too large for a repository (Postgres, made from the backup). */
const LEFT_OUT = ['postgres', 'logs', 'addresses.json', 'processes.json', 'lock', 'lock.guard', 'backup.lock']

/** Events that wait in the stream of the data directory. */
export const WAITING = 25

const DAY = '2026-11-20'

/** The answers do not depend on the day on which they are given. */
const QUESTIONS: Question[] = [
  ['clickhouse', `SELECT event, toUInt32(count()) AS n, toString(sum(cityHash64(uuid, event, distinct_id, person_id, timestamp, properties))) AS hash
    FROM events FINAL WHERE event != 'waiting' GROUP BY event ORDER BY event`],
  ['clickhouse', "SELECT event, p_plan, toString(toDate(timestamp)) AS day, country, toUInt32(count()) AS n FROM events FINAL WHERE event = 'order paid' GROUP BY ALL ORDER BY ALL"],
  ['clickhouse', "SELECT type, comment, compression_codec FROM system.columns WHERE database = 'millrace' AND table = 'events' AND name = 'p_plan'"],
  ['clickhouse', "SELECT event, toUInt32(sum(volume)) AS n FROM event_volumes_daily WHERE event != 'waiting' GROUP BY event ORDER BY event"],
  ['clickhouse', 'SELECT toString(person_id) AS person, properties, is_identified FROM persons FINAL ORDER BY person'],
  ['clickhouse', 'SELECT toUInt32(uniq(person_id)) AS persons FROM events_with_person WHERE event = \'order paid\''],
  ['clickhouse', 'SELECT group_type, group_key, properties FROM groups FINAL ORDER BY ALL'],
  ['clickhouse', 'SELECT event, toUInt32(sum(n)) AS n FROM marts.daily GROUP BY event ORDER BY event'],
  ['clickhouse', "SELECT event, toUInt32(count()) AS n FROM marts.names WHERE event != 'waiting' GROUP BY event ORDER BY event"],
  ['clickhouse', 'SELECT label, doubled FROM marts.labelled ORDER BY label'], ['clickhouse', 'SELECT id, label FROM millrace.labels ORDER BY id'],
  ['postgres', 'SELECT uuid::text, properties, is_identified FROM persons ORDER BY uuid'], ['postgres', 'SELECT distinct_id FROM person_distinct_ids ORDER BY distinct_id'],
  ['postgres', 'SELECT group_type_index, group_key, properties FROM groups ORDER BY group_key'], ['postgres', 'SELECT name, timezone FROM projects ORDER BY id'],
  ['postgres', "SELECT api_key FROM project_api_keys WHERE kind = 'project' ORDER BY api_key"], ['postgres', 'SELECT label, secure_value FROM personal_api_keys ORDER BY id'],
  ['postgres', 'SELECT what, days FROM retention ORDER BY what'],
  ['api', '/api/projects/1/feature_flags/'], ['api', '/api/projects/1/cohorts/'], ['api', '/api/projects/1/experiments/'], ['api', '/api/projects/1/rules/'],
  ['api', '/api/projects/1/questions/'], ['api', '/api/dead_letters/?limit=10']
]

/** Asks a running stack. */
export async function askStack (dataDir: string, questions: readonly Question[]): Promise<Answer[]> {
  const { clickhouseUrl, databaseUrl, baseUrl } = await readAddresses(dataDir)
  const { personalApiKey } = fieldsOf(JSON.parse(await readFile(path.join(dataDir, 'credentials.json'), 'utf8')))
  const clickhouse = connectClickHouse({ url: clickhouseUrl })
  const sql = connectPostgres({ url: databaseUrl, max: 1 })
  const ask = {
    clickhouse: async (query: string): Promise<unknown> => await queryRows(clickhouse, query),
    postgres: async (query: string): Promise<unknown> => [...await sql.unsafe(query)],
    api: async (at: string): Promise<unknown> => await (await fetch(`${baseUrl}${at}`, { headers: { authorization: `Bearer ${String(personalApiKey)}` } })).json()
  }
  try {
    const answers: Answer[] = []
    // As they are written in a file.
    for (const [target, question] of questions) {
      answers.push([target, question, JSON.parse(JSON.stringify(await ask[target](question)))])
    }
    return answers
  } finally {
    await clickhouse.close()
    await sql.end({ timeout: 1 })
  }
}

async function fill (stack: Stack): Promise<void> {
  await change(stack, 'PATCH', '/api/projects/1/', { name: 'Shop', timezone: 'Europe/Berlin' })
  for (const query of [
    "ALTER TABLE events ADD COLUMN p_plan LowCardinality(String) DEFAULT JSONExtractString(properties, 'plan') COMMENT 'Property \"plan\"' CODEC(ZSTD(3))",
    'CREATE DATABASE marts', 'CREATE FUNCTION doubled AS (x) -> x * 2',
    'CREATE TABLE marts.daily (day Date, event LowCardinality(String), n UInt64) ENGINE = SummingMergeTree ORDER BY (day, event)',
    "CREATE MATERIALIZED VIEW marts.fill_daily TO marts.daily AS SELECT toDate(timestamp) AS day, event, 1 AS n FROM millrace.events WHERE event != 'waiting'",
    'CREATE MATERIALIZED VIEW marts.names ENGINE = MergeTree ORDER BY event AS SELECT event, distinct_id FROM millrace.events',
    'CREATE TABLE millrace.labels (id UInt64, label String) ENGINE = MergeTree ORDER BY id', "INSERT INTO millrace.labels VALUES (1, 'one'), (2, 'two')",
    "CREATE DICTIONARY marts.labels (id UInt64, label String) PRIMARY KEY id SOURCE(CLICKHOUSE(DB 'millrace' TABLE 'labels')) LAYOUT(FLAT()) LIFETIME(0)",
    "CREATE VIEW marts.labelled AS SELECT dictGet('marts.labels', 'label', id) AS label, doubled(id) AS doubled FROM millrace.labels"
  ]) await stack.clickhouse.command({ query })
  await send(stack, [
    ...Array.from({ length: 120 }, (_, n) => event(['page seen', 'order paid', 'button clicked'][n % 3]!, `visitor-${n % 10}`,
      { plan: n % 2 === 0 ? 'free' : 'pro', amount: n / 4, $geoip_country_code: 'DE', $set: { plan: 'free', last: n } })),
    event('$identify', 'jo@example.com', { $anon_distinct_id: 'visitor-1', $set: { email: 'jo@example.com' } }),
    event('$create_alias', 'jo@example.com', { alias: 'visitor-2' }),
    event('$groupidentify', 'jo@example.com', { $group_type: 'company', $group_key: 'acme', $group_set: { size: 12 } })
  ])
  const filters = { groups: [{ properties: [{ key: 'plan', value: ['pro'], operator: 'exact', type: 'person' }], rollout_percentage: 50 }] }
  await change(stack, 'POST', '/api/projects/1/feature_flags/', { key: 'new-checkout', name: 'New checkout', active: true, filters })
  await change(stack, 'POST', '/api/projects/1/cohorts/', { name: 'Paying', filters: { properties: { type: 'OR', values: [{ type: 'AND', values: [{ key: 'plan', value: 'pro', type: 'person' }] }] } } })
  await change(stack, 'POST', '/api/projects/1/experiments/', { name: 'Checkout', feature_flag_key: 'checkout-test' })
  await change(stack, 'POST', '/api/projects/1/questions/', {
    name: 'Paid orders', definition: { kind: 'trend', version: 1, range: { from: DAY, to: DAY }, interval: 'day', series: [{ event: 'order paid' }] }
  })
  await change(stack, 'POST', '/api/projects/1/rules/', { name: 'No tests', actions: [{ type: 'drop' }] })
  await change(stack, 'POST', '/api/retention/', { what: 'dead_letters', project_id: null, days: 3000 })
  const nats = await connectNats({ url: stack.natsUrl, name: 'fixture', logger: createLogger({ component: 'fixture', level: 'silent' }) })
  await publishDeadLetter(nats, { id: 'kept', stage: 'writer', reason: 'refused', error: 'of the fixture', subject: 'events.live.0', sequence: 1, headers: {}, body: new Uint8Array(3) })
  await nats.close()
  await waitFor(async () => (await stack.select('SELECT 1 FROM person_overrides')).length > 0)
  await waitFor(async () => (await stack.select('SELECT 1 FROM groups')).length > 0)
}

const event = (name: string, distinctId: string, properties: object): object =>
  ({ event: name, distinct_id: distinctId, timestamp: `${DAY}T12:00:00Z`, properties })

async function send ({ url, projectApiKey }: Stack, batch: object[]): Promise<void> {
  const body = JSON.stringify({ api_key: projectApiKey, batch })
  const { status } = await fetch(`${url}/batch/`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  if (status !== 200) throw new Error(`a batch was answered with ${status}`)
}

async function change ({ url, personalApiKey }: Stack, method: string, at: string, body: object): Promise<void> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${personalApiKey}` }
  const response = await fetch(`${url}${at}`, { method, headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${method} ${at}: ${response.status} ${await response.text()}`)
}

async function makeRelease (version: string): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-release-'))
  const stack = await startStack()
  try {
    await fill(stack)
    const backup = path.join(folder, 'backup')
    const made = await runCaptured(['backup', backup], { PATH: process.env.PATH, MILLRACE_DATA_DIR: stack.dataDir })
    if (made.code !== 0) throw new Error(made.err)
    await mkdir(fileOf(version, ''), { recursive: true })
    await writeFile(fileOf(version, ANSWERS), `${(await askStack(stack.dataDir, QUESTIONS)).map((answer) => JSON.stringify(answer)).join('\n')}\n`)
    await packFolder(backup, fileOf(version, BACKUP))
    // ClickHouse takes nothing, so the stream keeps what comes. Without persons, whose state is that of the backup.
    const processes = JSON.parse(await readFile(path.join(stack.dataDir, 'processes.json'), 'utf8')) as { name: string, pid: number }[]
    process.kill(processes.find(({ name }) => name === 'clickhouse')!.pid, 'SIGSTOP')
    await send(stack, Array.from({ length: WAITING }, (_, n) => event('waiting', `later-${n}`, { $process_person_profile: false })))
    const ended = once(stack.supervisor, 'exit')
    stack.supervisor.kill('SIGTERM')
    await ended
    await packFolder(stack.dataDir, fileOf(version, DATA_DIR), LEFT_OUT)
  } finally {
    await stack.stop()
    await rm(folder, { recursive: true })
  }
}

if (import.meta.main) await makeRelease(readVersion())
