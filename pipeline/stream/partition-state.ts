/**
 * - `starting`: claims the partition, loads what it needs.
 * - `running`: stores messages, or has none to store.
 * - `retrying`: ClickHouse is unavailable or overloaded; the partition waits and retries, nothing is lost.
 * - `waiting`: copies of persons wait for ClickHouse, beyond what Postgres may hold; the partition waits.
 * - `dead-letter-full`: a message must be dead-lettered but the dead-letter stream is full; the partition waits.
 * - `failing`: the last session ended with an error, or ClickHouse refuses everything; it is retried after a pause.
 * - `standby`: another process owns the partition.
 */
export type PartitionPhase =
  'starting' | 'running' | 'retrying' | 'waiting' | 'dead-letter-full' | 'failing' | 'standby'

const HEALTHY_PHASES: ReadonlySet<PartitionPhase> = new Set(['starting', 'running', 'standby'])

/** An insert takes well under a second; one that takes longer than this, in milliseconds, counts as hanging. */
const SLOW_INSERT_MS = 15_000

/** What health and metrics report about a partition of this process. Written by the partition, read at any time. */
export class PartitionState {
  readonly key: string
  phase: PartitionPhase = 'starting'
  /** Messages of the partition that are not yet acknowledged. */
  pendingMessages = 0
  /** Their bytes, estimated from those in memory. */
  pendingBytes = 0
  /** When the oldest unacknowledged message in memory was stored in the stream, epoch ms; 0 without one. */
  oldestStoredAt = 0
  /** When the insert under way began, epoch ms; 0 without one. */
  insertingSince = 0
  /** When the last insert ended, epoch ms; 0 before the first. */
  insertedAt = 0
  lastError: string | null = null
  /** Sessions that failed in a row: the pause before the next one grows with them. */
  failedSessions = 0

  constructor (key: string) {
    this.key = key
  }

  /** Whether the partition stores its messages. */
  isHealthy (now: number): boolean {
    return HEALTHY_PHASES.has(this.phase) && (this.insertingSince === 0 || now - this.insertingSince < SLOW_INSERT_MS)
  }

  /** The error to show: null while the phase is a healthy one. */
  shownError (): string | null {
    return HEALTHY_PHASES.has(this.phase) ? null : this.lastError
  }

  fail (error: unknown): void {
    this.phase = 'failing'
    this.lastError = error instanceof Error ? error.message : String(error)
  }

  /** Forgets earlier failures; to be called after progress. */
  recover (): void {
    this.lastError = null
    this.failedSessions = 0
  }

  /** Age of the oldest unacknowledged message in memory, in milliseconds: how stale the partition's rows are. */
  lagMs (now: number): number {
    return this.oldestStoredAt === 0 ? 0 : Math.max(0, now - this.oldestStoredAt)
  }
}
