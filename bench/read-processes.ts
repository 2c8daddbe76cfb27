import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

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
  { tier: 'clickhouse', command: /clickhouse-server\/main\.ts/ },
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

/** CPU time of one process since its start, in microseconds; 0 when there is none. */
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
