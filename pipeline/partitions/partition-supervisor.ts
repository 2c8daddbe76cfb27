import { jetstreamManager } from '@nats-io/jetstream'
import { type Logger } from '../../platform/logger.ts'
import { type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { EVENT_CLASSES, EVENTS_STREAM, eventsSubject } from '../../schema/streams.ts'
import { type Membership } from './membership.ts'
import { type Partition, partitionKey } from './partition-records.ts'
import { PartitionState } from './partition-state.ts'

/** How often the distribution of partitions is looked at, in milliseconds. */
const TICK_MS = 500

/** How long a partition may take to finish its insert when the process stops, in milliseconds. */
const FINISH_MS = 5000

/** Writes a partition until it is stopped or belongs to another process. */
export type RunPartition = (partition: Partition, control: {
  state: PartitionState, stop: AbortSignal, abort: AbortSignal, giveUp: AbortSignal
}) => Promise<void>

interface RunningPartition {
  state: PartitionState
  stop: AbortController
  abort: AbortController
  ended: Promise<void>
}

/**
 * Runs the partitions that fall to this process, and hands them over when processes come and go. Who may write a
 * partition is decided by its record alone; this only decides who should try.
 */
export class PartitionSupervisor {
  readonly #partitions: readonly Partition[]
  readonly #membership: Membership
  readonly #runPartition: RunPartition
  readonly #logger: Logger
  readonly #running = new Map<string, RunningPartition>()
  readonly #giveUp = new AbortController()
  #timer: NodeJS.Timeout | null = null

  constructor (
    partitions: readonly Partition[], options: { membership: Membership, runPartition: RunPartition, logger: Logger }
  ) {
    this.#partitions = partitions
    this.#membership = options.membership
    this.#runPartition = options.runPartition
    this.#logger = options.logger
  }

  start (): void {
    this.#tick()
    this.#timer = setInterval(() => this.#tick(), TICK_MS)
  }

  /** The partitions of this process, those that are handed over included. */
  states (): PartitionState[] {
    return [...this.#running.values()].map(({ state }) => state)
  }

  /** Finishes or, when that takes too long, abandons the running inserts, and releases all partitions. */
  async stop (): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    for (const partition of this.#running.values()) this.#handOver(partition)
    // With their running inserts: while NATS is unavailable they cannot be released, and the process ends all the same.
    const timer = setTimeout(() => this.#giveUp.abort(), FINISH_MS)
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
    clearTimeout(timer)
  }

  #tick (): void {
    const members = this.#membership.living()
    // Without a view of the others everything stays as it is; the records protect the partitions meanwhile.
    if (members === null) return
    const assigned = assignPartitions(members, this.#partitions)
    for (const partition of this.#partitions) {
      const key = partitionKey(partition)
      const running = this.#running.get(key)
      const isMine = assigned.get(key) === this.#membership.id
      if (isMine && running === undefined) this.#start(partition, key)
      if (!isMine && running !== undefined && !running.stop.signal.aborted) {
        this.#logger.info({ partition: key, to: assigned.get(key) }, 'handing a partition over')
        this.#handOver(running)
      }
    }
  }

  #start (partition: Partition, key: string): void {
    const state = new PartitionState(partition)
    const stop = new AbortController()
    const abort = new AbortController()
    const ended = this.#runPartition(partition, {
      state, stop: stop.signal, abort: abort.signal, giveUp: this.#giveUp.signal
    })
      .finally(() => this.#running.delete(key))
    this.#running.set(key, { state, stop, abort, ended })
  }

  #handOver (partition: RunningPartition): void {
    partition.stop.abort()
    const timer = setTimeout(() => partition.abort.abort(), FINISH_MS)
    void partition.ended.finally(() => clearTimeout(timer))
  }
}

/**
 * Which process should write which partition: a pure function of the processes in the order in which they joined, so
 * all that see the same processes agree without talking.
 *
 * Partitions of a class are dealt out round robin, live ones from the embedded ClickHouse server and historical ones
 * from the back, so that both classes and their sum are spread evenly:
 *
 * ```
 *                live.0  live.1  live.2  |  historical.0  historical.1  historical.2
 * 2 processes:     A       B       A     |       B             A             B
 * ```
 */
export function assignPartitions (members: readonly string[], partitions: readonly Partition[]): Map<string, string> {
  const assigned = new Map<string, string>()
  if (members.length === 0) return assigned
  for (const partition of partitions) {
    const position = partition.number % members.length
    const index = partition.eventClass === 'live' ? position : members.length - 1 - position
    assigned.set(partitionKey(partition), members[index]!)
  }
  return assigned
}

/**
 * The partitions to be written: the configured ones, and any other that still holds messages because there were more
 * partitions before.
 */
export async function findPartitions (connection: NatsConnection, count: number): Promise<Partition[]> {
  const partitions = new Map<string, Partition>()
  const add = (partition: Partition): unknown => partitions.set(partitionKey(partition), partition)
  const manager = await jetstreamManager(connection)
  for (const eventClass of EVENT_CLASSES) {
    for (let number = 0; number < count; number++) add({ eventClass, number })
    const { state } = await manager.streams.info(EVENTS_STREAM, { subjects_filter: `events.${eventClass}.*` })
    for (const subject of Object.keys(state.subjects ?? {})) {
      const number = Number(subject.split('.')[2])
      if (subject === eventsSubject(eventClass, number)) add({ eventClass, number })
    }
  }
  return [...partitions.values()]
}
