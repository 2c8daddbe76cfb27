/**
 * Breaks a running system again and again, and looks whether an event was lost or counted twice:
 *
 *     npm run faults -- [--minutes 10] [--seed 1] [--fault NAME]... [--rate 1500] [--nats 3] [--clickhouse 4] ...
 *     npm run faults -- --fault power-cut-behind --minutes 1 [--disk xfs] [--unflushed random] [--nats-server PATH]
 *
 * Prints a table by fault, and exits with
 * - 0: every fault ran, nothing was lost, nothing is stored twice, all counts agree;
 * - 1: something differs;
 * - 2: it could not run;
 * - 3: all that ran held, but not every fault ran: the time was over, or it cannot be done here. The report says which.
 *
 * Logs are kept when something differs, or with `--logs`. A run of 5 minutes or more injects each fault at least once,
 * however long that takes, and so does one of named faults; in one of 8 minutes or more they last longer. `--tamper`
 * removes one stored event and repeats another before the comparison, which then has to end with 1;
 * `--tamper-watermark` has the watermark run ten seconds ahead all the time, with the same end; `--no-flush` makes
 * `power-cut` lose events. `--nats 3` breaks a cluster of nats-servers, and `--clickhouse 4` one of ClickHouse
 * (`test/cluster/lab/start-lab.ts`), in ways of their own. `--disk` and `--unflushed` choose what a power cut hits,
 * `--nats-server` which server has to survive it.
 *
 * In order: `system/` starts the system to break, `load/` sends to it and remembers the acknowledged, `run-faults.ts`
 * breaks it in one of the ways in `kinds/` after the other, `audit/` compares and reports.
 */
import { Command, InvalidArgumentError, Option } from 'commander'
import { readCount } from '../../cli/read-arguments.ts'
import { chooseExitStatus, isClean, renderReport } from './audit/fault-report.ts'
import { CLICKHOUSE_CLUSTER_FAULTS } from './kinds/clickhouse-cluster-faults.ts'
import { FAULTS } from './kinds/faults.ts'
import { NATS_CLUSTER_FAULTS } from './kinds/nats-cluster-faults.ts'
import { enterMountNamespace } from './system/small-disk.ts'
import { POWER_CUT_BEHIND, stopFlushing } from './kinds/power-faults.ts'
import { FILE_SYSTEM_NAMES, type FileSystem, type Unflushed } from './system/power-disk.ts'
import { openFaultSystem } from './system/fault-system.ts'
import { createRandom } from '../support/random.ts'
import { runFaults } from './run-faults.ts'
import { tamper } from './audit/audit-events.ts'

/** From here on pauses last 30 s and outages 60 s. */
const LONG_RUN_MINUTES = 8

/** From here on there is time for every fault in its short form. */
const EACH_ONCE_MINUTES = 5

/** Everything, or each node of a cluster of ClickHouse, is on a disk of its own then. */
const NEED_SMALL_DISK: readonly string[] = ['disk-full', 'power-cut', POWER_CUT_BEHIND.name, 'replica-disk-full']

/** Takes minutes, so it is run only by its name. */
const ONLY_BY_NAME = [POWER_CUT_BEHIND]

/** Share of imports in the load of faults that are about them. */
const HISTORICAL_SHARE = 0.05

/** A cluster of nats-servers meets its own faults, and what kills those who use it. */
const FAULTS_ON_CLUSTER = [
  ...NATS_CLUSTER_FAULTS, ...FAULTS.filter(({ name }) => /^(ingest|pipeline|clickhouse|postgres)-kill$/.test(name))
]

/** A cluster of ClickHouse meets its own faults, and those of whoever inserts into it. */
const FAULTS_ON_CLICKHOUSE_CLUSTER = [
  ...CLICKHOUSE_CLUSTER_FAULTS, ...FAULTS.filter(({ name }) => /^(pipeline-kill|clickhouse-lost-answer)$/.test(name))
]

const ALL_FAULTS = [...FAULTS, ...NATS_CLUSTER_FAULTS, ...CLICKHOUSE_CLUSTER_FAULTS, ...ONLY_BY_NAME]

interface Options {
  minutes: number
  seed?: number
  fault?: string[]
  rate: number
  nats: 1 | 3
  natsServer?: string
  disk: FileSystem
  unflushed: Unflushed
  clickhouse: 1 | 4
  logs?: true
  tamper?: true
  tamperWatermark?: true
  flush: boolean
  list?: true
}

const options = new Command('npm run faults --')
  .description('Breaks a running system again and again, and looks whether an event was lost or counted twice.')
  .option('--minutes <number>', 'how long; from 5 on each fault is injected at least once', readMinutes, 10)
  .option('--seed <number>', 'repeats the order of an earlier run (default: another each time)', readCount)
  .option('--fault <name>', 'only this fault; may be repeated (default: all)', collectFaults)
  .option('--rate <number>', 'events a second', readCount, 1500)
  .option('--nats <servers>', '3: a cluster of nats-servers, and the faults of one', readNatsNodes, 1)
  .option('--nats-server <path>', 'another nats-server, 2.15.1 or newer')
  .addOption(new Option('--disk <file system>', 'of faults that need a disk of their own').choices(FILE_SYSTEM_NAMES).default('ext4'))
  .addOption(new Option('--unflushed <blocks>', 'what a power cut does with what was not flushed').choices(['lost', 'random']).default('lost'))
  .option('--clickhouse <nodes>', '4: a cluster of two shards with two replicas, and the faults of one', readClickHouseNodes, 1)
  .option('--logs', 'keep the logs also when nothing differs')
  .option('--tamper', 'remove one stored event and repeat another before the comparison: has to end with 1')
  .option('--tamper-watermark', 'the watermark says that all is stored: has to end with 1')
  .option('--no-flush', 'ClickHouse does not flush what it stores: power-cut has to end with 1')
  .option('--list', 'list the faults')
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

if (options.list === true) {
  for (const { name, what } of ALL_FAULTS) process.stdout.write(`${name.padEnd(24)}${what}\n`)
} else {
  // Not left to the event loop: a client that still looks for a server that is gone would keep a failed run alive.
  process.exit(await enterMountNamespace() ?? await run())
}

async function run (): Promise<number> {
  const { minutes, seed = Date.now() % 1_000_000, fault: names } = options
  const ofNats = options.nats === 3 ? FAULTS_ON_CLUSTER : FAULTS
  const usual = options.clickhouse === 4 ? FAULTS_ON_CLICKHOUSE_CLUSTER : ofNats
  const faults = names === undefined ? usual : [...usual, ...ONLY_BY_NAME].filter(({ name }) => names.includes(name))
  const isLong = minutes >= LONG_RUN_MINUTES || names?.length === 1
  const stopped = new AbortController()
  process.once('SIGINT', () => stopped.abort())
  process.once('SIGTERM', () => stopped.abort())

  const startedAt = performance.now()
  const say = (line: string): void => {
    process.stderr.write(`${((performance.now() - startedAt) / 1000).toFixed(0).padStart(5)} s  ${line}\n`)
  }
  say(`seed ${seed}, ${minutes} minutes, ${faults.length} faults`)
  try {
    const wantsSmallDisk = faults.some(({ name }) => NEED_SMALL_DISK.includes(name))
    await using opened = await openFaultSystem({
      signal: stopped.signal, wantsSmallDisk, natsNodes: options.nats, natsServer: options.natsServer,
      clickhouseNodes: options.clickhouse, disk: { fileSystem: options.disk, unflushed: options.unflushed }
    })
    if (wantsSmallDisk && opened.disk === null && opened.system.replicaDisks.length === 0) say('FULL DISKS AND POWER-CUT ARE NOT RUN: a small disk cannot be mounted here')
    if (options.flush === false) await stopFlushing(opened.system)
    const report = await runFaults(opened.system, {
      faults, isLong, random: createRandom(seed), disk: opened.disk, signal: stopped.signal, onProgress: say,
      durationMs: minutes * 60_000, eachOnce: minutes >= EACH_ONCE_MINUTES || names !== undefined,
      eventsPerSecond: options.rate, tamperWatermark: options.tamperWatermark === true,
      ...minutes >= LONG_RUN_MINUTES ? { receipts: 10_000 } : {},
      ...faults.includes(POWER_CUT_BEHIND) ? { historicalShare: HISTORICAL_SHARE } : {},
      ...options.tamper === true ? { tamper } : {}
    })
    process.stdout.write(renderReport(report))
    if (options.logs === true || !isClean(report)) process.stdout.write(`logs: ${await opened.keepLogs()}\n`)
    return chooseExitStatus(report)
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.stack ?? error.message : String(error)}\n`)
    return 2
  }
}

function readMinutes (text: string): number {
  const minutes = Number(text)
  if (!(minutes > 0)) throw new InvalidArgumentError('Give a number above 0.')
  return minutes
}

function readNatsNodes (text: string): 1 | 3 {
  if (text !== '1' && text !== '3') throw new InvalidArgumentError('Give 1 or 3.')
  return text === '3' ? 3 : 1
}

function readClickHouseNodes (text: string): 1 | 4 {
  if (text !== '1' && text !== '4') throw new InvalidArgumentError('Give 1 or 4.')
  return text === '4' ? 4 : 1
}

function collectFaults (name: string, before: string[] = []): string[] {
  if (!ALL_FAULTS.some((fault) => fault.name === name)) {
    throw new InvalidArgumentError(`There is no fault ${name}; see --list.`)
  }
  return [...before, name]
}
