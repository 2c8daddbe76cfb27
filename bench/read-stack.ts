import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import type { Stack } from '../test/start-stack.ts'

interface Counts {
  projectId: number
  events: number
  volume: number
}

/**
 * What is stored now, in the table and in the view, of a project whose events came through the whole way. Questions
 * that insert by hand use other projects.
 */
export async function countEvents (stack: Stack, projectId = 1): Promise<Counts> {
  const [counts] = await stack.select<Counts>(`
    SELECT toUInt32((SELECT count() FROM events WHERE project_id = {id: UInt32})) AS events,
           toUInt32((SELECT sum(volume) FROM event_volumes_by_day WHERE project_id = {id: UInt32})) AS volume`,
  { id: projectId })
  return { ...counts as Counts, projectId }
}

/**
 * Waits until `expected` more events are stored than `before`.
 *
 * @throws when they are not within a minute, with the difference.
 */
export async function waitUntilVisible (stack: Stack, before: Counts, expected: number): Promise<void> {
  const deadline = Date.now() + 60_000
  let stored = 0
  while (Date.now() < deadline) {
    // An insert reaches the table a moment before its views.
    const now = await countEvents(stack, before.projectId)
    stored = Math.min(now.events - before.events, now.volume - before.volume)
    if (stored >= expected) return
    // Seldom enough that the question itself costs no CPU worth counting.
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`sent ${expected} events, but after a minute ${stored} are visible`)
}

/** @throws when an event is missing, stored twice, or counted differently by the view. A bench must not be wrong. */
export async function auditEvents (stack: Stack, before: Counts, expected: number): Promise<void> {
  const { projectId } = before
  const { events, volume } = await countEvents(stack, projectId)
  const [distinct] = await stack.select<{ total: number, unique: number }>(
    'SELECT toUInt32(count()) AS total, toUInt32(uniqExact(uuid)) AS unique FROM events WHERE project_id = {id: UInt32}',
    { id: projectId })
  if (distinct === undefined || distinct.total !== distinct.unique) {
    throw new Error(`audit failed: ${distinct?.total} rows, ${distinct?.unique} uuids`)
  }
  if (events - before.events !== expected) {
    throw new Error(`audit failed: sent ${expected}, stored ${events - before.events}`)
  }
  if (volume - before.volume !== expected) {
    throw new Error(`audit failed: sent ${expected}, view counts ${volume - before.volume}`)
  }
}

/** What the operating system says of one process. */
export interface ProcessReading {
  pid: number
  /** CPU time since its start, user and system, in microseconds. */
  cpuUs: number
  /** Resident memory now, in bytes. */
  rssBytes: number
  /** Largest resident memory so far, in bytes. */
  peakRssBytes: number
}

/** The processes of a stack by tier; Postgres, with its many processes, as one. */
export type TierReadings = Record<Tier, ProcessReading>
export type Tier = (typeof TIERS)[number]['tier']

const TIERS = [
  { tier: 'ingest', command: /ingest\/main\.ts/ },
  { tier: 'nats', command: /nats-server/ },
  { tier: 'pipeline', command: /pipeline\/main\.ts/ },
  { tier: 'clickhouse', command: /chdb-server\/main\.ts|clickhouse-lab\/node/ },
  { tier: 'api', command: /api\/main\.ts/ },
  { tier: 'postgres', command: /postgres/ }
] as const

// Clock ticks are what /proc counts CPU time in; 100 a second on practically every Linux.
const TICK_US = 1_000_000 / Number(execFileSync('getconf', ['CLK_TCK']).toString())

/** Reads CPU time and memory of every process below the supervisor, from /proc (Linux only). */
export function readTiers (supervisorPid: number): TierReadings {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap(readProcess)
  const children = (pid: number): typeof processes =>
    processes.filter(({ parent }) => parent === pid).flatMap((child) => [child, ...children(child.pid)])
  const readings = Object.fromEntries(
    TIERS.map(({ tier }): [Tier, ProcessReading] => [
      tier, { pid: 0, cpuUs: 0, rssBytes: 0, peakRssBytes: 0 }
    ])) as TierReadings
  for (const { pid, command, cpuUs, rssBytes, peakRssBytes } of children(supervisorPid)) {
    const tier = TIERS.find((candidate) => candidate.command.test(command))?.tier
    if (tier === undefined) continue
    const reading = readings[tier]
    reading.pid ||= pid
    reading.cpuUs += cpuUs
    reading.rssBytes += rssBytes
    reading.peakRssBytes += peakRssBytes
  }
  return readings
}

/** CPU microseconds that passed between two readings, by tier. */
export function cpuBetween (before: TierReadings, after: TierReadings): Record<Tier, number> {
  return Object.fromEntries(
    TIERS.map(({ tier }) => [tier, after[tier].cpuUs - before[tier].cpuUs])) as Record<Tier, number>
}

/**
 * CPU time that ClickHouse's background merges took since its start, in microseconds. When merges run is chance, so
 * questions about the cost of an event tell it apart.
 */
export function readMergeCpu (clickhousePid: number): number {
  const threads = `/proc/${clickhousePid}/task`
  return readdirSync(threads).reduce((sum, thread) => sum + readThreadCpu(`${threads}/${thread}`, 'MergeMutate'), 0)
}

function readThreadCpu (folder: string, name: string): number {
  try {
    const stat = readFileSync(`${folder}/stat`, 'utf8')
    if (!stat.includes(`(${name})`)) return 0
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_US
  } catch {
    // The thread ended between listing and reading.
    return 0
  }
}

/**
 * CPU time of the threads that a process has now, in microseconds. More exact than the ticks of a hundredth of a second
 * that its CPU time is counted in elsewhere.
 *
 * @throws when it has ended.
 */
export function readThreadsCpu (pid: number): number {
  const threads = `/proc/${pid}/task`
  return readdirSync(threads).reduce((sum, thread) =>
    sum + Number(readFileSync(`${threads}/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1000, 0)
}

/** CPU time of one process since its start, in microseconds; 0 without one. */
export function readProcessCpu (pid: number): number {
  return readProcess(String(pid))[0]?.cpuUs ?? 0
}

function readProcess (name: string): (ProcessReading & { parent: number, command: string })[] {
  try {
    const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
    // The name in parentheses may hold spaces; the fields after it do not.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const status = readFileSync(`/proc/${name}/status`, 'utf8')
    return [{
      pid: Number(name),
      parent: Number(fields[1]),
      command: readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' '),
      cpuUs: (Number(fields[11]) + Number(fields[12])) * TICK_US,
      rssBytes: Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024,
      peakRssBytes: Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024
    }]
  } catch {
    // The process ended between listing and reading.
    return []
  }
}
