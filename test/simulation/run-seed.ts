/** Runs the world of one seed, and says what was wrong in it. */
import type { PartitionRecord } from '../../pipeline/stream/partition-records.ts'
import { pause } from '../../platform/intervals.ts'
import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'
import { type LedgerEntry, toLedgerRow } from '../../schema/wire/ledger.ts'
import { DEAD_LETTER_STREAM, EVENTS_STREAM, eventsSubject, HEADER, PARTITIONS_BUCKET, PERSONS_STREAM } from '../../schema/wire/streams.ts'
import { pickOne } from '../support/random.ts'
import { takeContractSteps } from './contract-steps.ts'
import { FakeConnection } from './fake-connection.ts'
import type { StoredMessage } from './fake-stream.ts'
import { KNOWN_MESSAGES, type KnownMessage } from './known-messages.ts'
import { chooseScenario, createFaults, type Scenario } from './scenario.ts'
import { comparePersons, makeUpdate, type Update } from './simulated-persons.ts'
import { type SimulatedIngest, SimulatedSystem } from './simulated-system.ts'
import { VirtualProcess, World } from './virtual-time.ts'

/** After everything works again, all that came must be stored within so long, in milliseconds of the world. */
const RECOVERY_MS = 600_000

/** All that is late comes within so long after everything works again, in milliseconds. */
const LATEST_MS = 11_000

/** Timeout after which a client sends again, ms. */
const CLIENT_WAIT_MS = 10_000

/** A request of a client. */
interface Sent {
  message: KnownMessage
  /** Epoch milliseconds of ingest; Infinity: it was not received. */
  receivedAt: number
  isAcknowledged: boolean
  /** The watermark passed it while it was not stored. */
  isPassed: boolean
}

/** @returns what was wrong, nothing when all was right; and what happened. */
export async function runSeed (seed: number): Promise<{ violations: string[], trace: string[] }> {
  const world = new World(seed)
  const scenario = chooseScenario(seed)
  const { healedAfterMs } = scenario
  const system = new SimulatedSystem(world, scenario)
  const { nats, clickhouse, clickhouse: { copiesOf, violations } } = system
  const { requests: sent, unsent, acknowledged, sendToAll } = sendMessages(world, system, scenario)
  const events = nats.stream(EVENTS_STREAM)
  const published: StoredMessage[] = []
  events.listeners.add((message) => published.push(message))
  const changes = nats.stream(PERSONS_STREAM)
  const updates: Update[] = []
  const arrived = new Set<string>()
  changes.listeners.add(({ data }) => {
    for (const update of JSON.parse(Buffer.from(data).toString()) as Update[]) {
      updates.push(update)
      arrived.add(update.uuid)
    }
  })
  clickhouse.onWatermark = (through) => {
    checkWatermark(through, sent, copiesOf)
    const passed = sent.find(({ isPassed, isAcknowledged }) => isPassed && isAcknowledged)
    if (passed !== undefined) violations.push(`the watermark ${through} passed a request of ${passed.receivedAt}`)
  }

  const missingChanges = (): number => acknowledged.filter(({ uuid }) => !arrived.has(uuid)).length
  /** The watermark says so, too: it has passed the time of the last request. */
  const isAllStored = (): boolean => events.messages.size === 0 && changes.messages.size === 0 &&
    system.postgres.isEmpty('outbox') &&
    unsent.size === 0 && missingChanges() === 0 &&
    sent.every(({ receivedAt }) => receivedAt === Infinity || receivedAt < clickhouse.watermark)
  const isOver = (): boolean => violations.length > 0
  const recover = async (): Promise<boolean> =>
    await world.run(world.now + RECOVERY_MS, () => isOver() || isAllStored())
  await world.run(healedAfterMs, isOver)
  let isHealed = await recover()
  if (isHealed && !isOver() && scenario.tokenWindow === Infinity) {
    // Whatever was late has come by then; a partition that nobody writes any more is one that has nothing to write.
    await world.run(healedAfterMs + LATEST_MS, isOver)
    sendToAll()
    isHealed = await recover()
  }
  if (!isHealed) {
    const left = `${events.messages.size} messages, ${changes.messages.size} changes, ` +
      `${system.postgres.rows('outbox').length} rows of the outbox, ${unsent.size} requests, ${missingChanges()} changes that are nowhere`
    violations.push(`${left}, or the watermark, wait ${RECOVERY_MS} ms after all works again`)
  }
  await world.run(Infinity, () => violations.length > 0 || clickhouse.unanswered === 0)
  if (violations.length === 0) {
    violations.push(...compareRows(sent, copiesOf))
    violations.push(...compareBooks(system, published))
    violations.push(...comparePersons(updates, system.postgres, clickhouse.copies))
  }
  world.end()
  return { violations, trace: world.trace }
}

/** What the contract of the real servers says of those in memory. */
export async function runContractSteps (): Promise<unknown[]> {
  const world = new World(0)
  const scenario = { ...chooseScenario(0), processes: 0, healedAfterMs: 0, shards: 1 }
  const { clickhouse, ...system } = new SimulatedSystem(world, scenario)
  const owner = new VirtualProcess('contract')
  let seen: unknown[] | null = null
  void world.as(owner, async () => await takeContractSteps({
    connection: new FakeConnection(world, system.nats, owner, createFaults(world, scenario)).asNats(),
    clickhouse: clickhouse.clientOf(owner),
    insertFrames: clickhouse.insertFramesOf(owner),
    sql: connectPostgres({ url: 'postgres://simulated' })
  }).then((steps) => { seen = steps }))
  await world.run(600_000, () => seen !== null)
  return seen ?? ['it did not end']
}

/** Clients send each message until it is answered with 200, each time as a request of its own. */
function sendMessages (
  world: World, system: SimulatedSystem, scenario: Scenario
): { requests: Sent[], unsent: ReadonlySet<number>, acknowledged: Update[], sendToAll: () => void } {
  const requests: Sent[] = []
  const acknowledged: Update[] = []
  const unsent = new Set<number>()
  const never = new AbortController().signal
  async function keepAsking (ask: (ingest: SimulatedIngest | null) => Promise<void> | undefined): Promise<void> {
    for (let isAnswered = false; ;) {
      // What a process takes is its own, and a dead one never answers.
      const answered = ask(pickOne(system.ingests, world.random))?.then(() => { isAnswered = true }, () => {})
      await Promise.race([answered, pause(CLIENT_WAIT_MS, never)])
      if (isAnswered) return
      await pause(500, never)
    }
  }
  const send = async (known: number): Promise<void> => await keepAsking((ingest) => {
    const message = KNOWN_MESSAGES[known]!
    const sent: Sent = { message, receivedAt: Infinity, isAcknowledged: false, isPassed: false }
    requests.push(sent)
    return ingest?.capture(message, subjectOf(known), (at) => { sent.receivedAt = at })
      .then(() => { sent.isAcknowledged = true })
  })
  async function change (update: Update): Promise<void> {
    await keepAsking((ingest) => ingest?.change(update))
    acknowledged.push(update)
  }
  const { partitions, bursts, healedAfterMs, differentMessages } = scenario
  const first = Math.floor(world.random() * KNOWN_MESSAGES.length)
  /** A message of a partition, of those that come in this world. */
  function chooseMessage (): number {
    const known = (first + Math.floor(world.random() * differentMessages)) % KNOWN_MESSAGES.length
    return scenario.hasHistory ? known : known - known % 4 + known % 2
  }
  const subjectOf = (known: number): string =>
    eventsSubject(known % 4 > 1 ? 'historical' : 'live', known % partitions)
  function begin (number: number, work: () => Promise<void>, at: number): void {
    unsent.add(number)
    world.after(at - world.now, () => { void work().then(() => unsent.delete(number)) }, null)
  }
  for (let number = 0; number < scenario.messages + scenario.updates; number++) {
    const known = chooseMessage()
    const at = bursts.length === 0
      ? world.between(1000, healedAfterMs)
      : pickOne(bursts, world.random) + world.between(0, 1000)
    const isMessage = number < scenario.messages
    begin(number, async () => await (isMessage ? send(known) : change(makeUpdate(number, world.random))), at)
  }
  const sendToAll = (): void => {
    for (const known of [0, 1, 2, 3]) begin(-1 - known, async () => await send(known), world.now)
  }
  return { requests, unsent, acknowledged, sendToAll }
}

/** What a row of the watermark says is that every event of an earlier request is stored, if it is answered with 200. */
function checkWatermark (through: number, requests: readonly Sent[], copiesOf: (identity: string) => number): void {
  for (const sent of requests) {
    const { message: { identities, isRefused }, receivedAt } = sent
    if (receivedAt >= through || sent.isPassed) continue
    sent.isPassed = identities.some((identity, row) => isRefused[row] !== true && copiesOf(identity) === 0)
  }
}

/** Each event is stored once; one that ClickHouse refuses is not. */
function compareRows (sent: readonly Sent[], copiesOf: (identity: string) => number): Set<string> {
  return new Set(sent.flatMap(({ message: { identities, isRefused } }) => identities
    .filter((identity, row) => copiesOf(identity) !== (isRefused[row] === true ? 0 : 1))
    .map((identity) => `${identity} is stored ${copiesOf(identity)} times`)))
}

/**
 * Compares the books with what was published, stored and dead-lettered, once nothing is on its way any more.
 *
 * @param published  Every message that was ever stored in the stream.
 */
function compareBooks ({ nats, clickhouse }: SimulatedSystem, published: readonly StoredMessage[]): string[] {
  const books = new Map(clickhouse.ledger)
  for (const { data } of nats.stream(`KV_${PARTITIONS_BUCKET}`).messages.values()) {
    // A partition that was released before anybody wrote it.
    if (data.length === 0) continue
    const { ledger } = JSON.parse(Buffer.from(data).toString()) as PartitionRecord
    for (const [key, entry] of Object.entries<LedgerEntry>(ledger?.entries ?? {})) {
      const row = toLedgerRow(key, entry)
      books.set(`${entry.source} ${String(row.project_id)} ${String(row.minute)}`, row)
    }
  }
  const sum = (column: string): number => [...books.values()].reduce((total, row) => total + Number(row[column]), 0)
  const expected = {
    accepted: published.reduce((total, { headers }) => total + Number(headers.get(HEADER.rows)), 0),
    // A letter that is repeated after the window of the stream's message ids is there twice, and counts once.
    dead_lettered: new Set([...nats.stream(DEAD_LETTER_STREAM).messages.values()]
      .map(({ headers }) => headers.get('Nats-Msg-Id'))).size,
    duplicates: clickhouse.traces.size
  }
  const wrong = Object.entries(expected).filter(([column, value]) => sum(column) !== value)
    .map(([column, value]) => `the books say ${column} ${sum(column)}, not ${value}`)
  const left = sum('accepted') - sum('duplicates') - sum('dead_lettered')
  if (left !== clickhouse.rows().length) wrong.push(`the books say that ${left} rows are stored, not ${clickhouse.rows().length}`)
  return wrong
}
