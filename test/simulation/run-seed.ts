/** Runs the world of one seed, and says what was wrong in it. */
import { createAcknowledgedPublisher } from '../../ingest/publish/acknowledged-publisher.ts'
import { pause } from '../../platform/intervals.ts'
import { EVENTS_STREAM, eventsSubject } from '../../schema/wire/streams.ts'
import { compareBooks } from './compare-books.ts'
import type { StoredMessage } from './fake-stream.ts'
import { KNOWN_MESSAGES, type KnownMessage } from './known-messages.ts'
import { chooseScenario, type Scenario } from './scenario.ts'
import { SimulatedSystem } from './simulated-system.ts'
import { VirtualProcess, World } from './virtual-time.ts'

/** After everything works again, all that came must be stored within so long, in milliseconds of the world. */
const RECOVERY_MS = 600_000

/** An insert that nobody waits for any more stores its rows within so long, in milliseconds. */
const AFTERMATH_MS = 150_000

export interface SeedResult {
  /** What was wrong; empty when all was right. */
  violations: string[]
  trace: string[]
}

/** A message on its way, and whether its sender was told that it is safe. */
interface Sent {
  message: KnownMessage
  isAcknowledged: boolean
}

export async function runSeed (seed: number): Promise<SeedResult> {
  const world = new World(seed)
  const scenario = chooseScenario(seed)
  const { healedAfterMs } = scenario
  const system = new SimulatedSystem(world, scenario)
  const { nats, clickhouse, clickhouse: { violations } } = system
  const sent = sendMessages(world, system, scenario)
  const events = nats.stream(EVENTS_STREAM)
  const published: StoredMessage[] = []
  events.listeners.push((message) => published.push(message))
  nats.onAcknowledged = (_stream, { data, sequence }) => {
    const message = sent.find(({ message: { payload } }) => Buffer.compare(payload, data) === 0)?.message
    message?.identities.forEach((identity, row) => {
      if (message.isRefused[row] === true || clickhouse.copiesOf(identity) > 0) return
      violations.push(`message ${sequence} left the stream before ${identity} was stored`)
    })
  }

  const isHealed = await world.run(healedAfterMs + RECOVERY_MS, () => violations.length > 0 ||
    (world.now > healedAfterMs && events.messages.size === 0 && sent.every(({ isAcknowledged }) => isAcknowledged)))
  if (!isHealed) violations.push(`${events.messages.size} messages wait ${RECOVERY_MS} ms after everything works again`)
  await world.run(world.now + AFTERMATH_MS, () => violations.length > 0)
  if (violations.length === 0) {
    violations.push(...compareRows(sent, (identity) => clickhouse.copiesOf(identity)))
    violations.push(...compareBooks(system, published))
  }
  world.end()
  return { violations, trace: world.trace }
}

/** Clients send each message until it is acknowledged, under the same id, as the spool does. */
function sendMessages (world: World, system: SimulatedSystem, scenario: Scenario): Sent[] {
  const client = new VirtualProcess('client')
  const never = new AbortController().signal
  return world.as(client, () => {
    const { publish } = createAcknowledgedPublisher(system.connect(client).asNats(), 2000)
    return Array.from({ length: scenario.messages }, (_, number) => {
      const known = Math.floor(world.random() * KNOWN_MESSAGES.length)
      const sent = { message: KNOWN_MESSAGES[known]!, isAcknowledged: false }
      const { headers, payload } = sent.message
      const outgoing = {
        subject: eventsSubject('live', known % scenario.partitions), id: `message-${number}`, headers, payload
      }
      void (async () => {
        await pause(world.between(0, scenario.healedAfterMs), never)
        while (!sent.isAcknowledged) {
          await publish(outgoing).then(() => { sent.isAcknowledged = true }, async () => await pause(500, never))
        }
      })()
      return sent
    })
  })
}

/** Each event is stored once; one that ClickHouse refuses is not. */
function compareRows (sent: readonly Sent[], copiesOf: (identity: string) => number): string[] {
  const wrong = new Set<string>()
  for (const { message: { identities, isRefused } } of sent) {
    identities.forEach((identity, row) => {
      const copies = copiesOf(identity)
      if (copies !== (isRefused[row] === true ? 0 : 1)) wrong.add(`${identity} is stored ${copies} times`)
    })
  }
  return [...wrong]
}
