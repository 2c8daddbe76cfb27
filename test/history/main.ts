/**
 * Imports a generated history of another product into a stack of its own, and compares everything:
 *
 *     npm run check:import -- [--source mixpanel] [--events 2000000] [--kills 20] [--rate 0] [--seed 1]
 *
 * Kills (SIGKILL) hit the importer, which is started again, and the processes of the stack in random order. Exits with
 * 1 when the proof is not equal, when a second import stores an event, or when the books drift.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { Command, Option } from 'commander'
import { readTiers } from '../../bench/read-stack.ts'
import type { ImportResult } from '../../cli/import/import-options.ts'
import { readCount } from '../../cli/read-arguments.ts'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { auditBooks } from '../faults/audit/audit-books.ts'
import { startStack, type Stack } from '../start-stack.ts'
import { createRandom, pickOne } from '../support/random.ts'
import { findLatest, generateExport, HISTORY_SOURCES, type HistorySource, IMPORT_ARGUMENTS } from './generate-export.ts'

const options = new Command('npm run check:import --')
  .addOption(new Option('--source <name>').choices(HISTORY_SOURCES).default('posthog'))
  .option('--events <number>', 'in the export', readCount, 100_000)
  .option('--kills <number>', 'during the first import', Number, 0)
  .option('--kill-seconds <number>', 'between two kills, on average', readCount, 10)
  .option('--rate <number>', 'events a second; 0: no limit', Number, 0)
  .addOption(new Option('--persons <from>', 'posthog only').choices(['events', 'export']).default('export'))
  .option('--seed <number>', 'of the export and the kills', readCount, 1)
  .parse()
  .opts<{ source: HistorySource, events: number, kills: number, killSeconds: number, rate: number, persons: 'events' | 'export', seed: number }>()
const withPersons = options.persons === 'events'

const VICTIMS = ['importer', 'ingest', 'pipeline', 'api', 'clickhouse', 'nats', 'postgres'] as const
const MAIN = path.join(import.meta.dirname, '../../cli/main.ts')

const folder = await mkdtemp(path.join(tmpdir(), 'millrace-history-'))
const random = createRandom(options.seed)
const problems: string[] = []
const startedAt = performance.now()
let importer: ChildProcess | undefined
let stack: Stack | undefined
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => { void stop().finally(() => process.exit(128 + constants.signals[signal])) })
try {
  const generated = await generateExport({ source: options.source, rows: options.events, folder: path.join(folder, 'export'), seed: options.seed, withPersons })
  say(`generated ${options.events} events, ${generated.duplicates} of them twice, and ${generated.hostile} hostile rows`)
  stack = await startStack({ env: { MILLRACE_LOG_LEVEL: 'fatal' } })
  await importTwice(stack, generated.hostile)
} finally {
  await stop()
}
for (const problem of problems) say(`WRONG: ${problem}`)
process.exit(problems.length > 0 ? 1 : 0)

async function stop (): Promise<void> {
  importer?.kill('SIGKILL')
  await stack?.stop()
  await rm(folder, { recursive: true, force: true })
}

async function importTwice (stack: Stack, hostile: number): Promise<void> {
  const first = await importUntilDone(stack, 'first', options.kills)
  compare(first, hostile)
  const stored = await countStored(stack)
  if (stored !== first.events) problems.push(`${stored} events are stored, and ${first.events} are in the files`)
  compare(await importUntilDone(stack, 'second', 0), hostile)
  const again = await countStored(stack)
  if (again !== stored) problems.push(`the second import stored ${again - stored} events`)
  if (withPersons) await comparePersons(stack)
  const connection = await connectNats({ url: stack.natsUrl, name: 'check-import', logger: pino({ level: 'silent' }) })
  const clickhouse = connectClickHouse({ url: stack.clickhouseUrl })
  const { drift, compared, problems: inBooks } = await auditBooks({ connection, stored: clickhouse })
  say(`stored ${stored}, again ${again - stored}; books: drift ${drift} of ${compared}`)
  problems.push(...inBooks)
  await Promise.all([connection.close(), clickhouse.close()])
}

/** Starts the importer again as long as it is killed; what ends it otherwise is its result. */
async function importUntilDone (stack: Stack, name: string, kills: number): Promise<ImportResult> {
  const state = path.join(folder, name)
  const what = [options.source, path.join(folder, 'export'), ...IMPORT_ARGUMENTS[options.source], ...withPersons ? ['--persons', 'events'] : [], '--state', state]
  const args = ['import', ...what, '--events-per-second', String(options.rate), '--json']
  const begun = performance.now()
  const done = new AbortController()
  const killing = killSome(stack, kills, done.signal)
  let peakMiB = 0
  for (;;) {
    const child = importer = spawn(process.execPath, [MAIN, ...args], {
      env: { ...process.env, MILLRACE_URL: stack.url, MILLRACE_KEY: stack.personalApiKey }, stdio: ['ignore', 'ignore', 'pipe']
    })
    let printed = ''
    child.stderr.on('data', (chunk: Buffer) => { printed = (printed + chunk.toString()).slice(-2000) })
    const watch = setInterval(() => {
      void readPeak(child.pid).then((mib) => { peakMiB = Math.max(peakMiB, mib) })
    }, 500)
    const [code, signal] = await once(child, 'exit') as [number | null, string | null]
    clearInterval(watch)
    // 3: what it needs to begin is away for a moment.
    if (signal === 'SIGKILL' || (code === 3 && !done.signal.aborted && kills > 0)) continue
    done.abort()
    await killing
    const result = JSON.parse(await readFile(path.join(state, 'proof.json'), 'utf8').catch(() => '{}')) as Partial<ImportResult>
    if (result.proof === undefined || result.proof === null) throw new Error(`the importer ended with ${code}: ${printed}`)
    const seconds = (performance.now() - begun) / 1000
    say(`${name}: exit ${code}, ${result.events} events, ${result.duplicates} duplicates, ${result.rejected} rejected, ${result.proof.equal} of ${result.proof.groups} ` +
      `days and names equal, ${Math.round(seconds)} s, ${Math.round(Number(result.events) / seconds)} events/s, peak RSS ${peakMiB} MiB`)
    return result as ImportResult
  }
}

async function killSome (stack: Stack, kills: number, signal: AbortSignal): Promise<void> {
  for (let count = 0; count < kills && !signal.aborted; count++) {
    await sleep(options.killSeconds * 2000 * random(), undefined, { signal }).catch(() => {})
    if (signal.aborted) break
    const victim = pickOne(VICTIMS, random)
    const pid = victim === 'importer' ? importer?.pid : readTiers(Number(stack.supervisor.pid))[victim].pid
    if (pid === undefined || pid === 0) continue
    try {
      process.kill(pid, 'SIGKILL')
      say(`kill ${count + 1}: ${victim}`)
    } catch {
      // It is between two starts.
    }
  }
}

function compare ({ proof, rejected, broken, duplicates }: ImportResult, hostile: number): void {
  if (proof?.isComplete !== true || proof.equal !== proof.groups) problems.push(`the proof: ${JSON.stringify(proof?.differing.slice(0, 5))}`)
  if (rejected !== hostile) problems.push(`${rejected} rows were rejected in place of ${hostile}`)
  if (broken.length > 0 || duplicates === 0) problems.push(`broken ${JSON.stringify(broken)}, duplicates ${duplicates}`)
}

/** Persons have the values of their latest event, whatever was merged. */
async function comparePersons ({ sql }: Pick<Stack, 'sql'>, givesUpAt = performance.now() + 60_000): Promise<void> {
  const persons = await sql<{ ids: string[], index: number }[]>`
    SELECT array_agg(distinct_id) AS ids, (p.properties->'index')::int AS index
    FROM persons p JOIN person_distinct_ids d ON d.person_id = p.id GROUP BY p.id ORDER BY p.id`
  const wrong = persons.filter((_, i) => i % Math.ceil(persons.length / 200) === 0)
    .filter(({ ids, index }) => findLatest(ids, options.events) !== index)
  // The last ones may still be on their way.
  if (wrong.length > 0 && performance.now() < givesUpAt) {
    await sleep(1000)
    await comparePersons({ sql }, givesUpAt)
    return
  }
  say(`${persons.length} persons, of 200 of them ${wrong.length} wrong`)
  if (persons.length === 0 || wrong.length > 0) problems.push(`persons: ${JSON.stringify(wrong.slice(0, 3))}`)
}

async function countStored (stack: Stack): Promise<number> {
  const [row] = await stack.select<{ n: string }>('SELECT count() AS n FROM events WHERE project_id = 1')
  return Number(row?.n)
}

async function readPeak (pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
}

function say (text: string): void {
  process.stdout.write(`${Math.round((performance.now() - startedAt) / 1000)} s  ${text}\n`)
}
