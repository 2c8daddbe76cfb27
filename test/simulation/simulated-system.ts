/** The simulated stores and processes of one world, and what happens to them. */
import { setTimeout as delay } from 'node:timers/promises'
import { createAcknowledgedPublisher } from '../../ingest/publish/acknowledged-publisher.ts'
import { createDurablePublisher } from '../../ingest/publish/durable-publisher.ts'
import { createPersonsPartitions, encodeUpdate } from '../../ingest/publish/persons-partitions.ts'
import { Registry } from '../../ingest/registry/registry.ts'
import type { StreamLink } from '../../ingest/publish/stream-link.ts'
import { Spool } from '../../ingest/spool/spool.ts'
import { awaitLeaders } from '../../platform/nats/await-leaders.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import { EVENTS_STREAM } from '../../schema/wire/streams.ts'
import { pickOne } from '../support/random.ts'
import { FakeClickHouse } from './fake-clickhouse.ts'
import { FakeConnection } from './fake-connection.ts'
import { disk } from './fake-disk.ts'
import { FakeJetStream } from './fake-jetstream.ts'
import { network } from './fake-pg.ts'
import { FakePostgres } from './fake-postgres.ts'
import type { KnownMessage } from './known-messages.ts'
import { createFaults, type Faults, freeze, type Scenario } from './scenario.ts'
import { createTracingLogger, startSimulatedPipeline } from './simulated-pipeline.ts'
import { VirtualProcess, type World } from './virtual-time.ts'

/** Interval of what happens to processes and servers, in milliseconds. */
const DISTURB_MS = 1000

interface RunningProcess {
  owner: VirtualProcess
  restart: () => void
  /** In order, as SIGTERM does. */
  stop?: () => Promise<void>
}

export class SimulatedSystem {
  readonly nats: FakeJetStream
  readonly clickhouse: FakeClickHouse
  readonly postgres: FakePostgres
  /** By the folder of the spool; null while none runs there. */
  readonly ingests: (SimulatedIngest | null)[] = []
  readonly #world: World
  readonly #scenario: Scenario
  readonly #faults: Faults
  readonly #connections: FakeConnection[] = []
  #processes: RunningProcess[] = []
  #started = 0

  constructor (world: World, scenario: Scenario) {
    this.#world = world
    this.#scenario = scenario
    this.#faults = createFaults(world, scenario)
    this.nats = new FakeJetStream(world)
    this.clickhouse = new FakeClickHouse(world, this.#faults, scenario.shards)
    this.postgres = new FakePostgres(world)
    Object.assign(network, { world, postgres: this.postgres, faults: this.#faults })
    disk.clear()
    for (let number = 0; number < scenario.processes; number++) this.#startPipeline()
    this.#startIngest(0)
    // Others are added while events are sent already.
    for (let slot = 1; slot < scenario.ingests; slot++) {
      world.after(world.between(0, scenario.healedAfterMs / 2), () => this.#startIngest(slot), null)
    }
    world.after(DISTURB_MS, () => this.#disturb(), null)
  }

  connect (owner: VirtualProcess): FakeConnection {
    const connection = new FakeConnection(this.#world, this.nats, owner, this.#faults)
    this.#connections.push(connection)
    if (this.#faults.happens('disconnect')) connection.disconnect(this.#drawOutage())
    return connection
  }

  /** How long a connection is gone, in milliseconds: seldom so long that its process is taken for dead. */
  #drawOutage (): number {
    return 50 + 10_000 * this.#world.random() ** 2
  }

  /** A process begins, and ends when it could not. */
  #start (name: string, restart: () => void, begin: (process: RunningProcess) => Promise<void>): void {
    const owner = new VirtualProcess(`${name}${++this.#started}`)
    const process: RunningProcess = { owner, restart }
    this.#processes.push(process)
    this.#world.as(owner, () => {
      begin(process).catch((error: unknown) => {
        this.#world.log(`could not start: ${String(error)}`)
        this.#end(owner)
      })
    })
  }

  #startPipeline (): void {
    this.#start('pipeline', () => this.#startPipeline(), async (process) => {
      process.stop = await startSimulatedPipeline(this.#world, {
        owner: process.owner,
        connection: this.connect(process.owner),
        clickhouse: this.clickhouse,
        partitions: this.#scenario.partitions,
        hasPersons: this.#scenario.updates > 0
      })
    })
  }

  #startIngest (slot: number): void {
    const restart = (): void => { this.ingests[slot] = null; this.#startIngest(slot) }
    this.#start(`ingest${slot}-`, restart, async ({ owner }) => {
      const ingest = await startSimulatedIngest(this.#world, {
        owner, connection: this.connect(owner), folder: `/simulated/${slot}`
      })
      if (!owner.isDead) this.ingests[slot] = ingest
    })
  }

  /** The process ends, and whoever manages it starts another one. */
  #end (owner: VirtualProcess): void {
    const process = this.#processes.find((each) => each.owner === owner)
    if (process === undefined) return
    owner.isDead = true
    this.#processes = this.#processes.filter((each) => each !== process)
    this.#world.after(this.#world.between(500, 5000), process.restart, null)
  }

  /** Of the machine of ingest. */
  #cutPower (): void {
    this.#world.log('the power fails')
    disk.cutPower(this.#world)
    for (const { owner } of this.#processes.filter((each) => each.owner.name.startsWith('ingest'))) this.#end(owner)
  }

  #disturb (): void {
    const world = this.#world
    const { healedAfterMs, updates } = this.#scenario
    if (world.now >= healedAfterMs) return
    const { happens } = this.#faults
    if (happens('election')) {
      for (const stream of this.nats.streams.values()) if (world.chance(0.7)) stream.elect(world.between(4000, 9000))
      world.log('leaders are elected')
    }
    const target = pickOne([...this.#processes.map(({ owner }) => owner), ...this.nats.streams.values()], world.random)
    if (happens('spell')) this.#faults.beginSpell(target)
    if (happens('hang')) this.#faults.beginHang()
    if (happens('disconnect')) pickOne(this.#connections, world.random).disconnect(this.#drawOutage())
    if (happens('powerCut')) this.#cutPower()
    if (updates > 0 && happens('restart')) this.postgres.restart(world.between(100, 5000))
    if (this.#processes.length > 0) {
      const { owner: one, stop } = pickOne(this.#processes, world.random)
      if (happens('freeze')) freeze(world, one)
      else if (happens('kill')) {
        const isOrderly = stop !== undefined && world.chance(0.5)
        world.log(`${one.name} is ${isOrderly ? 'stopped' : 'killed'}`)
        const end = (): void => this.#end(one)
        if (isOrderly) void world.as(one, stop).then(end, end)
        else end()
      }
    }
    world.after(DISTURB_MS, () => this.#disturb(), null)
  }
}

/** A process of ingest from the message on: publisher, spool and entry in NATS, as `open-publishing.ts` joins them. */
const NEEDED_LEADERS = { streams: [EVENTS_STREAM], cluster: false }

export type SimulatedIngest = Awaited<ReturnType<typeof startSimulatedIngest>>

/** @param folder  Of its spool; nobody else has it. */
async function startSimulatedIngest (
  world: World, { owner, connection, folder }: { owner: VirtualProcess, connection: FakeConnection, folder: string }
) {
  const logger = createTracingLogger(world)
  const link = createLink(connection)
  const spool = await Spool.open({ folder, lock: { release: () => {} }, maxBytes: 1e9, logger })
  const counts = { published: 0, spooled: 0, drained: 0, refused: 0, inFlightBytes: 0, observeAckMs: () => {} }
  const publisher = createDurablePublisher({ link, spool, logger }, counts)
  const registry = new Registry({ processId: owner.name, link, spool, replicas: 1, logger })
  const { publishedThrough } = registry
  await registry.start()
  let messages = 0
  const nextMessageId = (): string => `${owner.name}-${messages++}`
  const persons = createPersonsPartitions({ publish: publisher.publishPersons, nextMessageId })
  async function capture (
    { headers, payload }: KnownMessage, subject: string, onReceived: (at: number) => void
  ): Promise<void> {
    if (!registry.isRegistered) throw new Error('not registered')
    const receivedAt = publishedThrough.receivedAt()
    onReceived(receivedAt)
    const inFlight = publishedThrough.begin(receivedAt)
    // Events wait for others that share their message.
    await delay(world.between(1, 200))
    await publisher.publishEvents({
      subject, id: nextMessageId(), headers, payload
    }).finally(() => publishedThrough.end(inFlight))
  }
  // In the name of the process: what it does ends with it.
  return {
    /** Takes a message of a client; resolves when it is answered with 200, and throws when the answer is 503. */
    capture: async (...request: Parameters<typeof capture>) =>
      await world.as(owner, async () => await capture(...request)),
    /** Takes a change of a person; resolves when it is answered with 200. */
    change: async (update: PersonsUpdate) =>
      await world.as(owner, async () => await persons.append(encodeUpdate(update)))
  }
}

/** As `openStreamLink` does it. */
function createLink (connection: FakeConnection): StreamLink {
  const nats = connection.asNats()
  const publisher = createAcknowledgedPublisher(nats, 3000)
  const opened = Promise.withResolvers<void>()
  let { isUp } = connection
  let wasUp = isUp
  if (isUp) opened.resolve()
  void (async () => {
    for await (const { type } of connection.status()) {
      isUp = type !== 'disconnect'
      wasUp ||= isUp
      if (wasUp) opened.resolve()
      if (!isUp) publisher.abandon(new Error('the connection to NATS was lost'))
    }
  })()
  return {
    isUp: () => isUp,
    connection: () => wasUp ? nats : null,
    opened: opened.promise,
    serverParts: () => [],
    maxPayloadBytes: () => 1e6,
    publish: async (message) => {
      if (!isUp) throw new Error('NATS is not connected')
      await publisher.publish(message)
    },
    repair: async (signal) => await awaitLeaders(nats, NEEDED_LEADERS, signal),
    close: async () => {}
  }
}
