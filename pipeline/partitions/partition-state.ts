/**
 * - `starting`: claims the partition, reads what is remembered of it.
 * - `running`: takes messages and stores them; also while there are none.
 * - `retrying`: ClickHouse does not take the batch at the moment; nothing is lost, the partition waits.
 * - `waiting`: copies of persons wait for ClickHouse, beyond what Postgres may hold; the partition waits.
 * - `dead-letter-full`: a message must be dead-lettered but the dead-letter stream is full; the partition waits.
 * - `failing`: the last session ended with an error; the next one follows after a pause.
 * - `standby`: another process owns the partition.
 */
export type PartitionPhase =
  'starting' | 'running' | 'retrying' | 'waiting' | 'dead-letter-full' | 'failing' | 'standby'

const HEALTHY_PHASES: ReadonlySet<PartitionPhase> = new Set(['starting', 'running', 'standby'])

/** An insert takes well under a second; one that takes so long, in milliseconds, waits for something. */
const SLOW_INSERT_MS = 15_000

/** What health and metrics say about a partition of this process. Written by the partition, read at any time. */
export class PartitionState {
  readonly key: string
  phase: PartitionPhase = 'starting'
  /** Messages that the stream holds for the partition and nobody acknowledged. */
  pendingMessages = 0
  /** Their bytes: of those in hand, and for the others estimated by these. */
  pendingBytes = 0
  /** When the oldest unacknowledged message in hand was stored in the stream, epoch ms; 0 when none is. */
  oldestStoredAt = 0
  /** When the insert under way began, epoch ms; 0 when there is none. */
  insertingSince = 0
  lastError: string | null = null
  /** Sessions that failed in a row: the pause before the next one grows with them. */
  failedSessions = 0

  constructor (key: string) {
    this.key = key
  }

  /** Whether the partition stores what comes. */
  isHealthy (now: number): boolean {
    return HEALTHY_PHASES.has(this.phase) && (this.insertingSince === 0 || now - this.insertingSince < SLOW_INSERT_MS)
  }

  /** Why it does not store what comes; null while it does. */
  shownError (): string | null {
    return HEALTHY_PHASES.has(this.phase) ? null : this.lastError
  }

  fail (error: unknown): void {
    this.phase = 'failing'
    this.lastError = error instanceof Error ? error.message : String(error)
  }

  /** To be called after progress that shows that what failed before is overcome. */
  recover (): void {
    this.lastError = null
    this.failedSessions = 0
  }

  /**
   * Age of the oldest message in hand that is not acknowledged, in milliseconds: how stale the partition's rows are.
   */
  lagMs (now: number): number {
    return this.oldestStoredAt === 0 ? 0 : Math.max(0, now - this.oldestStoredAt)
  }
}
