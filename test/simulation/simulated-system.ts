/** The simulated stores and processes of one world, and what happens to them. */
import { MEMBERS_BUCKET } from '../../schema/wire/streams.ts'
import { pickOne } from '../support/random.ts'
import { FakeClickHouse } from './fake-clickhouse.ts'
import { FakeConnection } from './fake-connection.ts'
import { FakeJetStream } from './fake-jetstream.ts'
import type { StoredMessage } from './fake-stream.ts'
import { createFaults, type Scenario } from './scenario.ts'
import { startSimulatedPipeline } from './simulated-pipeline.ts'
import { VirtualProcess, type World } from './virtual-time.ts'

/** Interval of what happens to processes and servers, in milliseconds. */
const DISTURB_MS = 1000

export class SimulatedSystem {
  readonly nats: FakeJetStream
  readonly clickhouse: FakeClickHouse
  readonly #world: World
  readonly #scenario: Scenario
  readonly #faults: ReturnType<typeof createFaults>
  readonly #connections: FakeConnection[] = []
  #processes: VirtualProcess[] = []
  #started = 0

  constructor (world: World, scenario: Scenario) {
    this.#world = world
    this.#scenario = scenario
    this.#faults = createFaults(world, scenario)
    this.nats = new FakeJetStream(world)
    this.clickhouse = new FakeClickHouse(world, this.#faults, scenario.shards)
    for (let number = 0; number < scenario.processes; number++) this.#startPipeline()
    world.after(DISTURB_MS, () => this.#disturb(), null)
  }

  connect (owner: VirtualProcess): FakeConnection {
    const connection = new FakeConnection(this.#world, this.nats, owner, this.#faults)
    this.#connections.push(connection)
    return connection
  }

  #startPipeline (): void {
    const world = this.#world
    const owner = new VirtualProcess(`pipeline${++this.#started}`)
    this.#processes.push(owner)
    world.as(owner, () => {
      startSimulatedPipeline(world, {
        owner,
        connection: this.connect(owner),
        clickhouse: this.clickhouse,
        partitions: this.#scenario.partitions,
        watchMembers: (see) => this.#watchMembers(owner, see)
      }).catch((error: unknown) => {
        world.log(`could not start: ${String(error)}`)
        this.#end(owner)
      })
    })
  }

  /** The process ends, and whoever manages it starts another one. */
  #end (owner: VirtualProcess): void {
    owner.isDead = true
    this.#processes = this.#processes.filter((each) => each !== owner)
    this.#world.after(this.#world.between(500, 5000), () => this.#startPipeline(), null)
  }

  /** A watcher first hears the last heartbeats, then each that follows. */
  #watchMembers (owner: VirtualProcess, see: (message: StoredMessage) => void): void {
    const world = this.#world
    const members = this.nats.stream(`KV_${MEMBERS_BUCKET}`)
    const tell = (message: StoredMessage): void => { world.after(world.between(1, 3), () => see(message), owner) }
    for (const message of members.messages.values()) tell(message)
    members.listeners.push(tell)
  }

  #disturb (): void {
    const world = this.#world
    const { rates, healedAfterMs } = this.#scenario
    if (world.now >= healedAfterMs) return
    const happens = (perSecond: number): boolean => world.chance(perSecond / 10)
    if (happens(rates.election)) {
      for (const stream of this.nats.streams.values()) if (world.chance(0.7)) stream.elect(world.between(4000, 9000))
      world.log('leaders are elected')
    }
    if (happens(rates.disconnect)) pickOne(this.#connections, world.random).disconnect(world.between(50, 4000))
    if (this.#processes.length > 0) {
      const one = pickOne(this.#processes, world.random)
      if (happens(rates.freeze)) {
        const ms = world.chance(0.7) ? world.between(500, 12_000) : world.between(12_000, 180_000)
        one.frozenUntil = world.now + ms
        world.log(`${one.name} is frozen for ${ms}`)
      } else if (happens(rates.kill)) {
        world.log(`${one.name} is killed`)
        this.#end(one)
      }
    }
    world.after(DISTURB_MS, () => this.#disturb(), null)
  }
}
