import { laneKey, type Lane } from './lane-record.ts'

/**
 * - `starting`: claims the lane, reads what is remembered of it.
 * - `running`: takes messages and stores them; also while there are none.
 * - `retrying`: ClickHouse does not take the batch at the moment; nothing is lost, the lane waits.
 * - `dead-letter-full`: a message must be set aside but the dead-letter stream is full; the lane waits.
 * - `failing`: the last session ended with an error; the next one follows after a pause.
 * - `elsewhere`: another process owns the lane.
 */
export type LanePhase = 'starting' | 'running' | 'retrying' | 'dead-letter-full' | 'failing' | 'elsewhere'

const HEALTHY_PHASES: ReadonlySet<LanePhase> = new Set(['starting', 'running', 'elsewhere'])

/** An insert takes well under a second; one that takes so long, in milliseconds, waits for something. */
const SLOW_INSERT_MS = 15_000

/** What health and metrics say about a lane of this process. Written by the lane, read at any time. */
export class LaneState {
  readonly key: string
  phase: LanePhase = 'starting'
  /** Messages that the stream holds for the lane and nobody settled. */
  pendingMessages = 0
  /** Their bytes: of those in hand, and for the others estimated by these. */
  pendingBytes = 0
  /** When the oldest unsettled message in hand was stored in the stream, epoch ms; 0 when none is. */
  oldestStoredAt = 0
  /** When the insert under way began, epoch ms; 0 when there is none. */
  insertingSince = 0
  lastError: string | null = null

  constructor (lane: Lane) {
    this.key = laneKey(lane)
  }

  /** Whether the lane stores what comes. */
  isHealthy (now: number): boolean {
    return HEALTHY_PHASES.has(this.phase) && (this.insertingSince === 0 || now - this.insertingSince < SLOW_INSERT_MS)
  }

  fail (error: unknown): void {
    this.phase = 'failing'
    this.lastError = error instanceof Error ? error.message : String(error)
  }

  /** Age of the oldest message in hand that is not settled, in milliseconds: how stale the lane's rows are. */
  lagMs (now: number): number {
    return this.oldestStoredAt === 0 ? 0 : Math.max(0, now - this.oldestStoredAt)
  }
}
