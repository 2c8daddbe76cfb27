/** A process of ingest from the message on: publisher, spool and entry in NATS, as `open-publishing.ts` joins them. */
import { setTimeout as delay } from 'node:timers/promises'
import { createAcknowledgedPublisher } from '../../ingest/publish/acknowledged-publisher.ts'
import { createDurablePublisher } from '../../ingest/publish/durable-publisher.ts'
import { HeldClock } from '../../ingest/publish/held-clock.ts'
import { Presence } from '../../ingest/publish/presence.ts'
import { PublishedThrough } from '../../ingest/publish/published-through.ts'
import type { StreamLink } from '../../ingest/publish/stream-link.ts'
import { Spool } from '../../ingest/spool/spool.ts'
import { awaitLeaders } from '../../platform/nats/await-leaders.ts'
import { EVENTS_STREAM, eventsSubject } from '../../schema/wire/streams.ts'
import type { FakeConnection } from './fake-connection.ts'
import type { KnownMessage } from './known-messages.ts'
import { createTracingLogger } from './simulated-pipeline.ts'
import type { VirtualProcess, World } from './virtual-time.ts'

const NEEDED_LEADERS = { streams: [EVENTS_STREAM], cluster: false }

export interface SimulatedIngest {
  /**
   * Takes a message of a client; resolves when it is answered with 200.
   *
   * @param onReceived  Told of its time of receipt.
   * @throws when the answer is 503.
   */
  capture: (message: KnownMessage, partition: number, onReceived: (at: number) => void) => Promise<void>
}

/** @param folder  Of its spool; nobody else has it. */
export async function startSimulatedIngest (
  world: World, { owner, connection, folder }: { owner: VirtualProcess, connection: FakeConnection, folder: string }
): Promise<SimulatedIngest> {
  const logger = createTracingLogger(world)
  const link = createLink(connection)
  const spool = await Spool.open({ folder, lock: { release: () => {} }, maxBytes: 1e9, logger })
  const counts = { published: 0, spooled: 0, drained: 0, refused: 0, inFlightBytes: 0, observeAckMs: () => {} }
  const publisher = createDurablePublisher({ link, spool, logger }, counts)
  const clock = new HeldClock()
  const publishedThrough = new PublishedThrough(() => clock.now(), () => spool.isSettled)
  const presence = new Presence({
    processId: owner.name, link, spool, publishedThrough, clock, replicas: 1, logger, now: Date.now,
    hasStraySpools: () => false
  })
  await presence.start()
  let messages = 0
  const capture: SimulatedIngest['capture'] = async ({ headers, payload }, partition, onReceived) => {
    if (!presence.isRegistered) throw new Error('not registered')
    const receivedAt = publishedThrough.receivedAt()
    onReceived(receivedAt)
    const inFlight = publishedThrough.begin(receivedAt)
    // Events wait for others that share their message.
    await delay(world.between(1, 200))
    await publisher.publishEvents({
      subject: eventsSubject('live', partition), id: `${owner.name}-${messages++}`, headers, payload
    }).finally(() => publishedThrough.end(inFlight))
  }
  // In the name of the process: what it does ends with it.
  return { capture: async (...request) => await world.as(owner, async () => await capture(...request)) }
}

/** As `openStreamLink` does it, on a connection that is there. */
function createLink (connection: FakeConnection): StreamLink {
  const nats = connection.asNats()
  const publisher = createAcknowledgedPublisher(nats, 3000)
  let isUp = true
  void (async () => {
    for await (const { type } of connection.status()) {
      isUp = type !== 'disconnect'
      if (!isUp) publisher.abandon(new Error('the connection to NATS was lost'))
    }
  })()
  return {
    isUp: () => isUp,
    connection: () => nats,
    opened: Promise.resolve(),
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
