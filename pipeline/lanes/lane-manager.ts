import { type Logger } from '../../platform/logger.ts'
import { assignLanes } from './assign-lanes.ts'
import { laneKey, type Lane } from './lane-record.ts'
import { LaneState } from './lane-state.ts'
import { type Membership } from './membership.ts'

/** How often the distribution of lanes is looked at, in milliseconds. */
const TICK_MS = 500

/** How long a lane may take to finish its insert when the process stops, in milliseconds. */
const FINISH_MS = 5000

/** Writes a lane until it is stopped or belongs to another process. */
export type RunLane = (lane: Lane, control: {
  state: LaneState, stop: AbortSignal, abort: AbortSignal, giveUp: AbortSignal
}) => Promise<void>

interface RunningLane {
  state: LaneState
  stop: AbortController
  abort: AbortController
  ended: Promise<void>
}

/**
 * Runs the lanes that fall to this process, and hands them over when processes come and go. Who may write a lane is
 * decided by its record alone; this only decides who should try.
 */
export class LaneManager {
  readonly #lanes: readonly Lane[]
  readonly #membership: Membership
  readonly #runLane: RunLane
  readonly #logger: Logger
  readonly #running = new Map<string, RunningLane>()
  readonly #giveUp = new AbortController()
  #timer: NodeJS.Timeout | null = null

  constructor (lanes: readonly Lane[], options: { membership: Membership, runLane: RunLane, logger: Logger }) {
    this.#lanes = lanes
    this.#membership = options.membership
    this.#runLane = options.runLane
    this.#logger = options.logger
  }

  start (): void {
    this.#tick()
    this.#timer = setInterval(() => this.#tick(), TICK_MS)
  }

  /** The lanes of this process, those that are handed over included. */
  states (): LaneState[] {
    return [...this.#running.values()].map(({ state }) => state)
  }

  /** Finishes or, when that takes too long, abandons the running inserts, and releases all lanes. */
  async stop (): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    for (const lane of this.#running.values()) this.#handOver(lane)
    // With their running inserts: while NATS is away they cannot be released, and the process ends all the same.
    const timer = setTimeout(() => this.#giveUp.abort(), FINISH_MS)
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
    clearTimeout(timer)
  }

  #tick (): void {
    const members = this.#membership.living()
    // Without a view of the others everything stays as it is; the records protect the lanes meanwhile.
    if (members === null) return
    const assigned = assignLanes(members, this.#lanes)
    for (const lane of this.#lanes) {
      const key = laneKey(lane)
      const running = this.#running.get(key)
      const isMine = assigned.get(key) === this.#membership.id
      if (isMine && running === undefined) this.#start(lane, key)
      if (!isMine && running !== undefined && !running.stop.signal.aborted) {
        this.#logger.info({ lane: key, to: assigned.get(key) }, 'handing a lane over')
        this.#handOver(running)
      }
    }
  }

  #start (lane: Lane, key: string): void {
    const state = new LaneState(lane)
    const stop = new AbortController()
    const abort = new AbortController()
    const ended = this.#runLane(lane, {
      state, stop: stop.signal, abort: abort.signal, giveUp: this.#giveUp.signal
    })
      .finally(() => this.#running.delete(key))
    this.#running.set(key, { state, stop, abort, ended })
  }

  #handOver (lane: RunningLane): void {
    lane.stop.abort()
    const timer = setTimeout(() => lane.abort.abort(), FINISH_MS)
    void lane.ended.finally(() => clearTimeout(timer))
  }
}
