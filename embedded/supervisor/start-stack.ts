import { copyFile, mkdir, readdir, stat, truncate } from 'node:fs/promises'
import path from 'node:path'
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import { checkPorts } from './ports.ts'
import { prepareDatabases } from './prepare-databases.ts'
import { loadCredentials, removeAddresses, writeAddresses } from '../data-dir/stack-access.ts'
import { checkRoom, explainFailedStart, refuseUnfinishedRestore, ROOM_OF_FIRST_START, ROOM_OF_START } from '../data-dir/check-data-dir.ts'
import { lockDataDir } from '../data-dir/data-dir-lock.ts'
import type { Progress } from './progress.ts'
import { endRecordedProcesses, openProcessRecord } from './processes/recorded-processes.ts'
import { createStackParts } from './processes/supervise.ts'
import type { StackSettings } from './stack-settings.ts'
import { scheduleBackups } from './schedule-backups.ts'
import { listErrors, startServices, startTiers } from './start-parts.ts'

export type Stack = Awaited<ReturnType<typeof startStack>>

export interface StartStackOptions {
  settings: StackSettings
  progress: Progress
  /** Cancels the start and ends what was started. */
  signal: AbortSignal
  /** Called before anything runs, with a function that kills everything at once. */
  onForce?: (force: () => void) => void
}

/** With one older copy each, the logs of six processes stay below a gigabyte. */
const MAX_LOG_BYTES = 64 * 1024 * 1024
const ROTATE_INTERVAL_MS = 60_000

/**
 * Starts everything, in this order:
 *
 * 1. the data directory is locked, and refused when it is half restored or has no room; processes that a killed start
 *    left running are ended;
 * 2. the ports are checked, the keys and passwords read or generated;
 * 3. services: nats-server, ClickHouse and Postgres at once;
 * 4. the schemas of both databases, and the first project;
 * 5. tiers: pipeline and API at once, then ingest, which is the origin of both;
 * 6. the addresses are written for tools, and backups are made when they are due.
 *
 * @throws {MillraceError} `MILLRACE_ALREADY_RUNNING` when a stack runs on the data directory,
 * `MILLRACE_RESTORE_UNFINISHED` when a restore into it was interrupted, `MILLRACE_DATA_DIR_FULL` or
 * `MILLRACE_DATA_DIR_UNUSABLE` when it cannot be written to.
 * @throws {SettingsError} when a port is taken.
 * @throws {ServiceStartError} when a part does not come up. Whatever was started is ended first.
 */
export async function startStack ({ settings, progress, signal, onForce }: StartStackOptions) {
  const { dataDir } = settings
  const lock = await lockDataDir(dataDir)
  const record = openProcessRecord(dataDir)
  const parts = createStackParts({ progress, signal, onSpawn: (child) => record.add(child) })
  onForce?.(parts.kill)
  const rotation = rotateLogs(dataDir)
  let backups: IntervalLoop | undefined
  const stop = async (): Promise<void> => {
    await backups?.stop()
    await parts.stop()
    await rotation.stop()
    await removeAddresses(dataDir)
    await record.written()
    await lock.release()
  }

  try {
    await refuseUnfinishedRestore(dataDir)
    await checkRoom(dataDir, await hasCluster(settings) ? ROOM_OF_START : ROOM_OF_FIRST_START)
    const leftover = await endRecordedProcesses(dataDir)
    if (leftover.length > 0) progress.print(`  ended processes that a killed start left running: ${leftover.join(', ')}`)
    await checkPorts(settings)
    // Where it cannot be made, as for a link to a disk that is not mounted, exports say so.
    await mkdir(path.join(dataDir, 'exports'), { recursive: true }).catch(() => {})
    const credentials = await loadCredentials(dataDir, settings.chosen)
    const urls = await startServices({ settings, credentials, parts, progress })
    const project = await progress.step('database schemas', async () => await prepareDatabases({
      ...urls,
      cluster: settings.clickhouseCluster,
      createDatabase: settings.external.databaseUrl === undefined,
      projectApiKey: credentials.projectApiKey,
      personalApiKey: credentials.personalApiKey
    }, { env: settings.env, signal }))
    const tierUrls = await startTiers({ settings, credentials, urls, parts })
    const isClickHouseEmbedded = settings.external.clickhouseUrl === undefined
    const { clickhouseCluster } = settings
    const addresses = { pid: process.pid, ...tierUrls, ...urls, clickhouseCluster, isClickHouseEmbedded }
    await writeAddresses(dataDir, addresses)
    const { baseUrl: ingest, pipelineUrl: pipeline, apiUrl: api } = tierUrls
    for (const [tier, url] of Object.entries({ ingest, pipeline, api })) {
      for (const what of await listErrors(url)) progress.print(`  DEGRADED  ${tier}: ${what}`)
    }
    if (settings.backups.folder !== '') backups = scheduleBackups({ settings, progress, onSpawn: (child) => record.add(child) })
    const publicUrl = settings.publicUrl || tierUrls.baseUrl
    return {
      dataDir,
      addresses,
      /** Where clients reach it: `MILLRACE_PUBLIC_URL`, else `addresses.baseUrl`. */
      publicUrl,
      /** Logs in to the console, once, within a quarter of an hour; only its address without a known personal key. */
      consoleUrl: `${publicUrl}/console${project.loginLink === null ? '' : `#login=${project.loginLink}`}`,
      credentials: { ...credentials, projectApiKey: project.projectApiKey },
      /** False when the database refuses the personal key of the credentials. */
      knowsPersonalKey: project.knowsPersonalKey,
      /** Ends everything, sources first; resolves when no process is left. */
      stop
    }
  } catch (error) {
    await stop()
    throw await explainFailedStart(dataDir, error)
  }
}

/** Nearly everything that a first start writes is the Postgres cluster. */
async function hasCluster ({ dataDir, external }: StackSettings): Promise<boolean> {
  if (external.databaseUrl !== undefined) return true
  return await stat(path.join(dataDir, 'postgres', 'cluster')).then(() => true, () => false)
}

/**
 * Keeps the log files of the data directory from growing indefinitely: a large one is copied to `<name>.1` and emptied.
 * The processes append to their files and go on without noticing; lines written in between are lost.
 */
function rotateLogs (dataDir: string): IntervalLoop {
  const folder = path.join(dataDir, 'logs')
  // A log that cannot be copied, for example on a full disk, is tried again a minute later.
  const run = async (): Promise<void> => await rotateLarge(folder).catch(() => {})
  return runAtIntervals({ everyMs: ROTATE_INTERVAL_MS, firstAfterMs: ROTATE_INTERVAL_MS, run })
}

async function rotateLarge (folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = path.join(folder, name)
    if (!name.endsWith('.log') || (await stat(file)).size < MAX_LOG_BYTES) continue
    await copyFile(file, `${file}.1`)
    await truncate(file)
  }
}
