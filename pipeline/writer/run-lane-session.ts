import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { type Logger } from '../../platform/logger.ts'
import { type DuplicateFilter } from '../duplicates/duplicate-filter.ts'
import { claimLane } from '../lanes/claim-lane.ts'
import { type Lane } from '../lanes/lane-record.ts'
import { type LaneRecords } from '../lanes/lane-records.ts'
import { type LaneState } from '../lanes/lane-state.ts'
import { type OnDisconnect } from '../lanes/watch-disconnects.ts'
import { type PipelineMetrics } from '../metrics.ts'
import { type BatchLimits } from './batch/choose-batch.ts'
import { type InsertFrames } from './insert/insert-frames.ts'
import { LaneSession } from './lane-session.ts'
import { openLaneReader, type LaneReader } from './read/lane-reader.ts'

/** What a lane needs from its process. */
export interface LaneDeps {
  lane: Lane
  state: LaneState
  /** Id of this process in lane records. */
  owner: string
  connection: NatsConnection
  records: LaneRecords
  insertFrames: InsertFrames
  /** Whether the table is as every frame expects it. */
  probeTable: () => Promise<boolean>
  limits: BatchLimits
  metrics: PipelineMetrics
  logger: Logger
  isAlive: (owner: string) => boolean
  /** Calls back when the connection is lost; returns how to stop that. */
  onDisconnect: OnDisconnect
  /** @param wasMine  What this process remembers of the lane is complete. */
  openDuplicateFilter: (lane: Lane, options: { wasMine: boolean }) => Promise<DuplicateFilter>
  /** Finish what was begun, release the lane and return. */
  stop: AbortSignal
  /** Abandon the running insert; the next owner repeats the recorded cut. */
  abort: AbortSignal
  /** The process ends: return although the lane could not be released. */
  giveUp: AbortSignal
}

/** How often the server is asked for the lag, in milliseconds. */
const PENDING_INTERVAL_MS = 3000

/**
 * One session of a lane: claim it, repeat the cut that was under way, then store what comes, until told to stop.
 *
 * @throws {FencedError} when the lane went to another owner; anything else that a fresh session may overcome.
 */
export async function runLaneSession (deps: LaneDeps): Promise<void> {
  const { lane, state } = deps
  const claimed = await claimLane(lane, deps)
  if (claimed === null) {
    state.phase = 'elsewhere'
    return
  }
  let reader: LaneReader | null = null
  let timer: NodeJS.Timeout | undefined
  let forget = (): void => {}
  try {
    const filter = await deps.openDuplicateFilter(lane, claimed)
    reader = await openLaneReader(deps.connection, lane, { maxBytes: deps.limits.maxBytes })
    const opened = reader
    // What was on its way is lost; asking again beats waiting for a missing heartbeat.
    forget = deps.onDisconnect(() => opened.fail('nats connection lost'))
    timer = setInterval(() => { void refreshPending(opened, state) }, PENDING_INTERVAL_MS)
    await new LaneSession(deps, { hold: claimed.hold, reader, filter }).run()
  } finally {
    forget()
    clearInterval(timer)
    reader?.close()
  }
}

async function refreshPending (reader: LaneReader, state: LaneState): Promise<void> {
  try {
    state.pendingMessages = await reader.readPending()
    const { buffer, bufferedBytes } = reader
    if (state.pendingMessages === 0) state.pendingBytes = 0
    else if (buffer.length > 0) state.pendingBytes = Math.round(bufferedBytes / buffer.length * state.pendingMessages)
  } catch {
    // The lag is not known for a moment. What is wrong shows where the lane reads and writes.
  }
}
