/** Runs the partitions of a stream that fall to this process: those of events and those of persons alike. */
import { pause, retryDelayMs } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import { MillraceError } from '../../engines/errors.ts'
import { awaitLeaders, type NeededLeaders } from '../../platform/nats/await-leaders.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { EVENTS_STREAM, PARTITIONS_BUCKET, PERSONS_STREAM } from '../../schema/wire/streams.ts'
import { FencedError } from './partition-records.ts'
import { PartitionState } from './partition-state.ts'

/** Interval of assigning partitions to the living processes, in milliseconds. */
const ASSIGN_INTERVAL_MS = 500

/** How long a stopped partition may take to finish its insert, in milliseconds. */
const FINISH_MS = 5000

/** After a session that lasted longer, in milliseconds, the pauses between failed ones start short again. */
const HEALTHY_AFTER_MS = 30_000

/** Longest pause between sessions that the stream ended, in milliseconds: its leader is waited for by itself. */
const LONGEST_STREAM_PAUSE_MS = 1000

/** What a supervisor hands to the work on a partition. */
export interface PartitionControl {
  /** What health and metrics report; written by the work on the partition. */
  state: PartitionState
  /** Finish what was begun, release the partition and return. */
  stop: AbortSignal
  /** Abandons the work under way; the next owner repeats it. */
  abort: AbortSignal
  /** The process ends: return although the partition could not be released. */
  giveUp: AbortSignal
}

export interface PartitionSupervisorOptions<Partition> {
  /** All partitions of the stream by key, which is their name in logs, health and metrics. */
  partitions: ReadonlyMap<string, Partition>
  /**
   * Which of the processes should have a partition. A pure function of the processes in the order in which they joined,
   * so all that see the same processes agree without talking.
   */
  chooseOwner: (partition: Partition, members: readonly string[]) => string | undefined
  membership: {
    /** This process. */
    id: string
    /** The living processes in the order in which they joined; null while that is not known. */
    living: () => readonly string[] | null
  }
  /** Works on a partition until it is stopped or belongs to another process. */
  runPartition: (partition: Partition, control: PartitionControl) => Promise<void>
  logger: Logger
}

interface RunningPartition {
  state: PartitionState
  stop: AbortController
  abort: AbortController
  ended: Promise<void>
}

/**
 * Starts the partitions that fall to this process, and hands them over when processes come and go. It decides only who
 * should try: who may write is decided by the record of the partition (events) or a lock in Postgres (persons), so two
 * processes that believe to own a partition for a moment do no harm.
 */
export class PartitionSupervisor<Partition> {
  readonly #options: PartitionSupervisorOptions<Partition>
  readonly #running = new Map<string, RunningPartition>()
  readonly #giveUp = new AbortController()
  #timer: NodeJS.Timeout | null = null

  constructor (options: PartitionSupervisorOptions<Partition>) {
    this.#options = options
  }

  start (): void {
    this.#assign()
    this.#timer = setInterval(() => this.#assign(), ASSIGN_INTERVAL_MS)
  }

  /** The partitions of this process, those that are handed over included. */
  states (): PartitionState[] {
    return [...this.#running.values()].map(({ state }) => state)
  }

  /** Lets all partitions finish or, when that takes too long, abandon what they do, and release themselves. */
  async stop (): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    for (const partition of this.#running.values()) this.#handOver(partition)
    // While NATS is unavailable they cannot be released, and the process ends all the same.
    const timer = setTimeout(() => this.#giveUp.abort(), FINISH_MS)
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
    clearTimeout(timer)
  }

  #assign (): void {
    const { partitions, membership, chooseOwner, logger } = this.#options
    const members = membership.living()
    // Without a view of the others everything stays as it is; the records protect the partitions meanwhile.
    if (members === null) return
    for (const [key, partition] of partitions) {
      const running = this.#running.get(key)
      const owner = chooseOwner(partition, members)
      const isMine = owner === membership.id
      if (isMine && running === undefined) this.#start(key, partition)
      if (!isMine && running !== undefined && !running.stop.signal.aborted) {
        logger.info({ partition: key, to: owner }, 'handing partition over to another process')
        this.#handOver(running)
      }
    }
  }

  #start (key: string, partition: Partition): void {
    const state = new PartitionState(key)
    const stop = new AbortController()
    const abort = new AbortController()
    const ended = this.#options.runPartition(partition, {
      state, stop: stop.signal, abort: abort.signal, giveUp: this.#giveUp.signal
    }).finally(() => this.#running.delete(key))
    this.#running.set(key, { state, stop, abort, ended })
  }

  #handOver (partition: RunningPartition): void {
    partition.stop.abort()
    const timer = setTimeout(() => partition.abort.abort(), FINISH_MS)
    void partition.ended.finally(() => clearTimeout(timer))
  }
}

/** What a session of a partition needs to begin: its messages, the records, and a consumer that is re-created. */
const NEEDED_LEADERS: NeededLeaders = {
  streams: [EVENTS_STREAM, PERSONS_STREAM, `KV_${PARTITIONS_BUCKET}`], cluster: true
}

export interface SessionDeps extends PartitionControl {
  logger: Logger
  /** Absent in tests of the sessions alone: leaders are not waited for. */
  connection?: NatsConnection
}

/**
 * Repeats sessions of a partition until it is stopped or belongs to another process. Whatever goes wrong ends a
 * session; the next one follows after a growing pause, and starts from the durable record, as a new owner does.
 *
 * @param session  Returns when the partition is stopped, or its phase is `standby`. Throws what a fresh session may
 *                 overcome, or `FencedError` when the partition went to another process.
 */
export async function runSessions (
  { state, stop, abort, logger, connection }: SessionDeps, session: () => Promise<void>
): Promise<void> {
  const partition = state.key
  while (!stop.aborted) {
    const startedAt = performance.now()
    try {
      await session()
      if (state.phase === 'standby') return
    } catch (err) {
      if (abort.aborted) return
      if (err instanceof FencedError) {
        logger.warn({ partition }, 'partition was taken over by another process')
        state.phase = 'standby'
        return
      }
      if (performance.now() - startedAt > HEALTHY_AFTER_MS) state.failedSessions = 0
      const attempt = state.failedSessions++
      const retryAfterMs = Math.min(retryDelayMs(attempt), isOfStream(err) ? LONGEST_STREAM_PAUSE_MS : Infinity)
      state.fail(err)
      logger.error({ err, partition, attempt, retryAfterMs }, 'partition failed and will be restarted')
      await pause(retryAfterMs, stop)
      if (connection !== undefined) await awaitLeaders(connection, NEEDED_LEADERS, stop)
    }
  }
}

/** Names of the errors with which the client says that nobody answers for a stream. */
const NO_ANSWER = new Set(['TimeoutError', 'NoRespondersError', 'ConnectionError', 'ClosedConnectionError', 'LeaderlessError'])

/** Whether an error, or a cause of it, says that nobody answers for a stream, as while a cluster elects a leader. */
function isStreamSilent (error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) if (NO_ANSWER.has(at.name)) return true
  return false
}

/** Whether a session ended because NATS did not answer, or the reader lost its place in it. */
function isOfStream (error: unknown): boolean {
  return isStreamSilent(error) || (error instanceof MillraceError && error.code.endsWith('_READER_LOST'))
}
