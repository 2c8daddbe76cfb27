import { setTimeout as delay } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { readStreamInfo } from '../../../platform/nats/stream-info.ts'
import { LAB_CLUSTER } from '../../cluster/lab/start-lab.ts'
import { EVENTS_STREAM, PERSONS_STREAM } from '../../../schema/wire/streams.ts'
import type { SdkLoad } from '../sdk-load.ts'
import type { FaultSystem } from '../system/fault-system.ts'
import type { SupervisedPart } from '../system/supervise.ts'

const POLL_INTERVAL_MS = 100

/**
 * What waits in the stream at most so long, in milliseconds, or came only after the healing, is on its way, not left
 * behind. On a busy machine everything takes longer.
 */
const FRESH_MS = 3000

/** The part of a system needed to see whether something waits in it. */
export interface DrainableSystem extends Pick<FaultSystem, 'connection'>, Partial<Pick<FaultSystem, 'clickhouseCluster' | 'select'>> {
  parts: readonly Pick<SupervisedPart, 'name' | 'isRunning'>[]
  ingest: readonly { name: string, port: number }[]
}

/**
 * Waits until the system works as before: every part runs, an event sent from now on is acknowledged and stored, no
 * spool holds anything, and nothing old waits in the stream.
 *
 * @throws when it does not recover in time, with the remaining problems.
 */
export async function waitUntilRecovered (
  system: FaultSystem, load: SdkLoad, { timeoutMs, signal }: { timeoutMs: number, signal: AbortSignal }
): Promise<void> {
  let uuid: string | undefined
  const healedAt = Date.now()
  void load.nextAcknowledged().then((acknowledged) => { uuid = acknowledged })
  await waitUntilFine([
    () => findDown(system),
    () => uuid === undefined ? ['no event is acknowledged'] : [],
    async () => await findLeftBehind(system, { freshMs: FRESH_MS, healedAt }),
    async () => await findSpooled(system),
    async () => await findBehind(system, LACKS_MUCH),
    async () => uuid === undefined || await isStored(system, uuid) ? [] : ['an acknowledged event is not stored yet']
  ], { timeoutMs, signal })
}

/** Waits, when nothing is sent any more, until all streams and spools are empty. */
export async function waitUntilDrained (
  system: DrainableSystem, { timeoutMs, signal }: { timeoutMs: number, signal: AbortSignal }
): Promise<void> {
  await waitUntilFine([
    () => findDown(system),
    async () => await findLeftBehind(system),
    async () => await findSpooled(system),
    // What left the spool meanwhile.
    async () => await findLeftBehind(system),
    async () => await findBehind(system)
  ], { timeoutMs, signal })
}

/** Finds the remaining problems. */
type Check = () => string[] | Promise<string[]>

/** Waits until no check finds anything wrong: cheap ones come first, and one that does spares those that follow. */
async function waitUntilFine (
  checks: readonly Check[], { timeoutMs, signal }: { timeoutMs: number, signal: AbortSignal }
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    // A service that does not answer is one of the things that are still wrong.
    const wrong = await findFirst(checks).catch((error: unknown) => [String(error)])
    if (wrong.length === 0) return
    signal.throwIfAborted()
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs / 1000} s: ${wrong.join('; ')}`)
    await delay(POLL_INTERVAL_MS)
  }
}

async function findFirst (checks: readonly Check[]): Promise<string[]> {
  for (const check of checks) {
    const wrong = await check()
    if (wrong.length > 0) return wrong
  }
  return []
}

function findDown ({ parts }: DrainableSystem): string[] {
  return parts.filter((part) => !part.isRunning()).map(({ name }) => `${name} does not run`)
}

async function findSpooled ({ ingest }: DrainableSystem): Promise<string[]> {
  const bytes = await Promise.all(ingest.map(async ({ name, port }) => ({ name, bytes: await readSpoolBytes(port) })))
  return bytes.filter((spool) => spool.bytes > 0).map((spool) => `${spool.bytes} bytes in the spool of ${spool.name}`)
}

async function readSpoolBytes (port: number): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(2000) })
  return Number(/^millrace_ingest_spool_bytes (\S+)/m.exec(await response.text())?.[1] ?? Number.NaN)
}

async function findLeftBehind (
  { connection }: DrainableSystem, { freshMs = 0, healedAt = Infinity } = {}
): Promise<string[]> {
  const manager = await jetstreamManager(connection)
  const wrong: string[] = []
  for (const stream of [EVENTS_STREAM, PERSONS_STREAM]) {
    const { state } = await readStreamInfo(manager, stream)
    const storedAt = Date.parse(state.first_ts)
    const ageMs = Date.now() - storedAt
    if (state.messages > 0 && ageMs > freshMs && storedAt < healedAt) {
      wrong.push(`${state.messages} messages in ${stream}, the oldest ${(ageMs / 1000).toFixed(1)} s old`)
    }
  }
  return wrong
}

/** Of replicas that do not have everything. An empty log has no entry 0. */
const LACKS_SOMETHING = 'queue_size > 0 OR (log_max_index > 0 AND log_pointer <= log_max_index)'

/** Of replicas that have not come back, or lack so much that a second fault would hide it. */
const LACKS_MUCH = 'absolute_delay >= 2'

/**
 * Replicas of ClickHouse that do not have everything yet: their answers miss stored events. The watermark is
 * written all the time.
 */
async function findBehind ({ clickhouseCluster, select }: DrainableSystem, lacks = LACKS_SOMETHING): Promise<string[]> {
  if (select === undefined || (clickhouseCluster ?? null) === null) return []
  const [row] = await select<{ tables: number, behind: number }>(`
    SELECT toUInt32(count()) AS tables,
      toUInt32(countIf(is_readonly OR active_replicas < total_replicas OR ${lacks})) AS behind
    FROM clusterAllReplicas('${LAB_CLUSTER}', system.replicas) WHERE database = 'millrace' AND table != 'watermark_reached'`)
  return row?.behind === 0 && row.tables > 0 ? [] : [`${row?.behind} of ${row?.tables} replicas of tables are behind`]
}

async function isStored ({ select }: FaultSystem, uuid: string): Promise<boolean> {
  const rows = await select('SELECT 1 FROM events WHERE uuid = {uuid:UUID} LIMIT 1', { uuid })
  return rows.length > 0
}
