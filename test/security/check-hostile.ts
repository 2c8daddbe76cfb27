/**
 * Sends the bodies of `hostile-bodies.ts` to an ingest process, one after the other, from several senders at once, and
 * measures what becomes of another project that sends from the same address:
 *
 *     npm run check:hostile -- [--senders 6] [--seconds 4] [--only brackets]
 *
 * Prints a line for each: the answers, the slowest of them, and how long batches of 1.5 MB and single events of the
 * other project took. Exits with 0: the other project was always answered with 200, its batches within 2 s, and no
 * hostile body with 5xx, or refused after more than 5 s; 1: not so, with what; 2: it could not run.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Command } from 'commander'
import { readCount } from '../../cli/read-arguments.ts'
import { runCheck } from '../support/run-check.ts'
import { startTierProcess } from '../support/start-tier-process.ts'
import type { TestContext } from '../support/test-context.ts'
import { startTestNats } from '../support/test-processes.ts'
import { createTestPostgres } from '../support/test-stores.ts'
import { type HostileBody, hostileBodies } from './hostile-bodies.ts'

const options = new Command('npm run check:hostile --')
  .description('Measures what hostile bodies cost another project.')
  .option('--senders <number>', 'that send a hostile body at the same time, again and again', readCount, 6)
  .option('--seconds <number>', 'for each body', readCount, 4)
  .option('--only <text>', 'bodies whose name has this text', '')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()
  .opts<{ senders: number, seconds: number, only: string }>()

const ATTACKER = 'phc_attacker'
const VICTIM = 'phc_victim'

const SLOWEST_REFUSAL_MS = 5000
const SLOWEST_BATCH_MS = 2000

const BATCH = JSON.stringify({
  api_key: VICTIM,
  batch: Array.from({ length: 2000 }, (_, at) => ({
    event: `event ${at % 20}`,
    distinct_id: `user ${at}`,
    properties: Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`property name ${n}`, n % 2 === 0 ? at * n : 'a value']))
  }))
})
const EVENT = JSON.stringify({ api_key: VICTIM, event: 'e', distinct_id: 'd', properties: { a: 1 } })

interface Answer {
  status: number
  code: string
  ms: number
}

await runCheck(run)

async function run (t: TestContext): Promise<number> {
  const url = await startIngest(t)
  const faults: string[] = []
  for (const body of [null, ...hostileBodies(ATTACKER).filter(({ name }) => name.includes(options.only))]) {
    const { answers, batches, events } = await attack(url, body)
    const name = body?.name ?? 'nobody else'
    const codes = Object.entries(Object.groupBy(answers, ({ status, code }) => `${status} ${code}`))
      .map(([code, all = []]) => `${code} x${all.length}`)
    const slowest = Math.max(0, ...answers.map(({ ms }) => ms))
    const slowestRefusal = Math.max(0, ...answers.filter(({ status }) => status !== 200).map(({ ms }) => ms))
    process.stdout.write(`${name.padEnd(36)} ${codes.join(', ')}, slowest ${slowest.toFixed(0)} ms | batches ${timesOf(batches)} | events ${timesOf(events)}\n`)
    if ([...batches, ...events].some(({ status }) => status !== 200)) faults.push(`${name}: the other project was not answered with 200`)
    if (answers.some(({ status }) => status >= 500)) faults.push(`${name}: answered with ${codes.join(', ')}`)
    if (slowestRefusal > SLOWEST_REFUSAL_MS) faults.push(`${name}: refused after ${slowestRefusal.toFixed(0)} ms`)
    if (batches.some(({ ms }) => ms > SLOWEST_BATCH_MS)) faults.push(`${name}: a batch of the other project took more than ${SLOWEST_BATCH_MS} ms`)
  }
  for (const fault of faults) process.stdout.write(`FAULT: ${fault}\n`)
  return faults.length === 0 ? 0 : 1
}

async function startIngest (t: TestContext): Promise<string> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-hostile-'))
  t.teardown(async () => await rm(dataDir, { recursive: true, force: true }))
  const [nats, { url: databaseUrl, sql }] = await Promise.all([startTestNats(t), createTestPostgres(t)])
  await sql`INSERT INTO projects (name) VALUES ('attacker'), ('victim')`
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES (${ATTACKER}, 1, 'project'), (${VICTIM}, 2, 'project')`
  const { url } = await startTierProcess(t, {
    tier: 'ingest', env: { NATS_URL: nats.url, DATABASE_URL: databaseUrl, MILLRACE_DATA_DIR: dataDir }
  })
  return url
}

/** @param hostile  Null: the other project alone. */
async function attack (url: string, hostile: HostileBody | null): Promise<Record<'answers' | 'batches' | 'events', Answer[]>> {
  const body = hostile?.build()
  const endsAt = performance.now() + options.seconds * 1000
  const repeated = async (pauseMs: number, send: () => Promise<Answer>): Promise<Answer[]> => {
    const answers: Answer[] = []
    while (performance.now() < endsAt) {
      answers.push(await send())
      await delay(pauseMs)
    }
    return answers
  }
  const senders = hostile === null || body === undefined
    ? []
    : Array.from({ length: options.senders }, async () =>
      await repeated(0, async () => await post(url + hostile.path, body, hostile.headers)))
  const [batches, events, ...answers] = await Promise.all([
    repeated(100, async () => await post(`${url}/batch/`, BATCH)),
    repeated(10, async () => await post(`${url}/e/`, EVENT)),
    ...senders
  ])
  return { answers: answers.flat(), batches, events }
}

async function post (url: string, body: string | Buffer, headers: Record<string, string> = {}): Promise<Answer> {
  const startedAt = performance.now()
  const signal = AbortSignal.timeout(120_000)
  const response = await fetch(url, { method: 'POST', body: new Uint8Array(Buffer.from(body)), headers, signal })
  const { code = '' } = await response.json() as { code?: string }
  return { status: response.status, code, ms: performance.now() - startedAt }
}

function timesOf (answers: readonly Answer[]): string {
  const sorted = answers.map(({ ms }) => ms).sort((a, b) => a - b)
  const at = (share: number): string => sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)]?.toFixed(0) ?? '-'
  return `${sorted.length}: p50 ${at(0.5)}, p99 ${at(0.99)}, max ${at(1)} ms`
}
