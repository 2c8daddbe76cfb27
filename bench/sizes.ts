/**
 * Memory of every process of `npm start`, at rest and under load, and whether all of it together stays below a limit:
 *
 *     npm run sizes -- [--limit 1024] [--rate 500] [--seconds 30]
 *
 * Prints a table in MB (of 1,048,576 bytes). Exits with 1 when the sum went above the limit, an event was lost or
 * counted twice, or a request failed. Linux only: it adds up /proc twice a second, which needs no rights, unlike a
 * cgroup. ClickHouse gets the limit as on a machine of that size.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { Command } from 'commander'
import { readCount } from '../cli/read-arguments.ts'
import { startStack } from '../test/start-stack.ts'
import { prepareLoad } from './load/load-generator.ts'
import { auditEvents, countEvents, waitUntilVisible } from './read-stack.ts'

const MB = 1_048_576

/** The share of the machine that the embedded ClickHouse takes by itself. */
const CLICKHOUSE_SHARE = 0.6

/** Time until what the start left behind is collected, in milliseconds. */
const REST_MS = 10_000
const WATCH_MS = 500

const PROCESSES = [
  ['guards', /process-guard/], ['ClickHouse', /chdb-server\/main/], ['nats-server', /nats-server/],
  ['Postgres', /postgres/], ['ingest', /ingest\/main/], ['api', /api\/main/], ['pipeline', /pipeline\/main/]
] as const

/** In bytes. Of pages that processes share, the proportional size counts a part for each: the sum is the usage. */
interface Size {
  resident: number
  proportional: number
}

const { limit, rate, seconds } = new Command('npm run sizes --')
  .description('Measures the memory of every process of npm start, at rest and under load.')
  .option('--limit <MB>', 'for all processes together', readCount, 1024)
  .option('--rate <number>', 'events a second, one in each request', readCount, 500)
  .option('--seconds <number>', 'of load', readCount, 30)
  .parse().opts<{ limit: number, rate: number, seconds: number }>()

const stack = await startStack({
  env: { MILLRACE_CLICKHOUSE_MEMORY_BYTES: String(Math.floor(limit * MB * CLICKHOUSE_SHARE)) }
})
try {
  await delay(REST_MS)
  const atRest = readSizes(stack.supervisor.pid!)
  const load = await prepareLoad({
    port: Number(new URL(stack.url).port), path: '/capture/', apiKey: stack.projectApiKey, seed: 1,
    requests: rate * seconds, eventsPerRequest: 1, connections: 16, gzip: false, ratePerSecond: rate
  })
  const before = await countEvents(stack)
  const peak = new Map(atRest)
  let highest = sum(atRest)
  const over = new AbortController()
  const watching = (async () => {
    while (!over.signal.aborted) {
      const now = readSizes(stack.supervisor.pid!)
      highest = Math.max(highest, sum(now))
      for (const [name, size] of now) {
        const { resident, proportional } = peak.get(name) ?? size
        peak.set(name, {
          resident: Math.max(resident, size.resident), proportional: Math.max(proportional, size.proportional)
        })
      }
      await delay(WATCH_MS)
    }
  })()
  const { requests, failed, durationMs, latenciesMs } = await load.run()
  await waitUntilVisible(stack, before, requests - failed)
  over.abort()
  await watching
  await auditEvents(stack, before, requests - failed)

  latenciesMs.sort((a, b) => a - b)
  const [p50, p99] = [0.5, 0.99].map((share) => latenciesMs[Math.floor(share * latenciesMs.length)]!.toFixed(1))
  const rows = [...peak].map(([name, size]) => [name, atRest.get(name), size].flatMap((each) =>
    typeof each === 'string' ? [each] : [inMB(each?.resident ?? 0), inMB(each?.proportional ?? 0)]))
  const head = ['process', 'resident at rest', 'proportional', 'highest resident', 'proportional']
  for (const line of [head, head.map(() => '---'), ...rows]) console.log(`| ${line.join(' | ')} |`)
  console.log(`together ${inMB(sum(atRest))} MB at rest, at most ${inMB(highest)} MB of ${limit} MB (proportional sizes in /proc)`)
  console.log(`${requests} events, ${Math.round(requests / durationMs * 1000)} a second; median ${p50} ms, p99 ${p99} ms; ` +
    `${failed} refused, lost 0, doubled 0`)
  process.exitCode = highest > limit * MB || failed > 0 ? 1 : 0
} finally {
  await stack.stop()
}

/** Sizes of a process and all below it, by name. */
function readSizes (supervisor: number): Map<string, Size> {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap(readProcess)
  const family = new Set([supervisor])
  for (const pid of family) for (const { pid: child, parent } of processes) if (parent === pid) family.add(child)
  const sizes = new Map<string, Size>()
  for (const { pid, command, resident, proportional } of processes.filter(({ pid }) => family.has(pid))) {
    const name = pid === supervisor ? 'supervisor' : PROCESSES.find(([, pattern]) => pattern.test(command))?.[0] ?? 'others'
    const before = sizes.get(name) ?? { resident: 0, proportional: 0 }
    sizes.set(name, { resident: before.resident + resident, proportional: before.proportional + proportional })
  }
  return sizes
}

function readProcess (name: string): (Size & { pid: number, parent: number, command: string })[] {
  try {
    const rollup = readFileSync(`/proc/${name}/smaps_rollup`, 'utf8')
    const read = (what: string): number => Number(new RegExp(`^${what}: +(\\d+) kB`, 'm').exec(rollup)?.[1] ?? 0) * 1024
    const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
    return [{
      pid: Number(name),
      parent: Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]),
      command: readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' '),
      resident: read('Rss'),
      proportional: read('Pss')
    }]
  } catch {
    // Ended meanwhile, or of somebody else.
    return []
  }
}

function sum (sizes: Map<string, Size>): number {
  return [...sizes.values()].reduce((total, { proportional }) => total + proportional, 0)
}

function inMB (bytes: number): string {
  return (bytes / MB).toFixed(0)
}
