/** Stores ingestion warnings: from the stream to their table. */
import { AckPolicy, type Consumer, DeliverPolicy, jetstream, JetStreamApiCodes, JetStreamApiError, jetstreamManager, type JsMsg } from '@nats-io/jetstream'
import { type ClickHouse, insertRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type IntervalLoop, runAtIntervals } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { sourceOf, toWarningRow, WARNINGS_TABLE, type WarningsMessage } from '../../schema/wire/ingestion-warnings.ts'
import { toTraceRow, TRACES_TABLE } from '../../schema/wire/event-traces.ts'
import { WARNINGS_CONSUMER, WARNINGS_STREAM } from '../../schema/wire/streams.ts'

export interface IngestionWarningsDeps {
  connection: NatsConnection
  /** For the tables of all shards. */
  clickhouse: ClickHouse
  logger: Logger
}

/** Pause between two inserts, in milliseconds: few parts for ClickHouse. */
const INTERVAL_MS = 500

/** How long a round waits for the first message, and for those that are announced with it, in milliseconds. */
const FIRST_WAIT_MS = 10_000
const WAIT_MS = 1000

/** Messages of one insert at most. */
const MAX_MESSAGES = 1000

/**
 * A message that was delivered and not acknowledged comes again after this long, in milliseconds: that of a process
 * that died, or one that arrived after its fetch had ended. Short, as storing one twice changes nothing, and whoever
 * asks for a dropped event waits for it.
 */
const ACK_WAIT_MS = 15_000

/**
 * Stores warnings until stopped. All processes share one consumer: the totals of a message are the same, whichever
 * process stores them, in which order, and how often.
 */
export function startIngestionWarnings (deps: IngestionWarningsDeps): IntervalLoop {
  return runAtIntervals({
    everyMs: INTERVAL_MS,
    run: async (signal) => await storeWarnings(deps, { waitMs: FIRST_WAIT_MS, signal }),
    logger: deps.logger,
    failure: 'ingestion warnings could not be stored; they wait in the stream and will be retried',
    stopWithinMs: 2 * WAIT_MS
  })
}

/**
 * Waits for a message, stores what waits then, a thousand messages at most, and acknowledges it.
 *
 * @param options.signal  Ends the wait.
 * @throws when NATS or ClickHouse is unavailable: the messages come again.
 */
export async function storeWarnings (
  { connection, clickhouse, logger }: IngestionWarningsDeps,
  { waitMs = WAIT_MS, signal }: { waitMs?: number, signal?: AbortSignal } = {}
): Promise<void> {
  const consumer = await openConsumer(connection)
  const messages = await fetchAll(consumer, { max_messages: 1, expires: waitMs }, signal)
  const [first] = messages
  if (first === undefined) return
  try {
    // A fetch that asked for more than there is would keep it until it expires. What comes again is not pending.
    const again = first.redelivered ? (await consumer.info()).num_ack_pending - 1 : 0
    const others = Math.min(MAX_MESSAGES - 1, first.info.pending + again)
    if (others > 0) messages.push(...await fetchAll(consumer, { max_messages: others, expires: WAIT_MS }))
    const read = messages.map((message) => readMessage(message, logger))
    await insertRows(clickhouse, TRACES_TABLE, read.flatMap(toTraces))
    await insertRows(clickhouse, WARNINGS_TABLE, mergeTotals(read))
  } catch (error) {
    for (const message of messages) message.nak()
    throw error
  }
  for (const message of messages) message.ack()
}

async function fetchAll (
  consumer: Consumer, pull: { max_messages: number, expires: number }, signal?: AbortSignal
): Promise<JsMsg[]> {
  if (signal?.aborted === true) return []
  const fetched = await consumer.fetch(pull)
  const stop = (): void => fetched.stop()
  signal?.addEventListener('abort', stop)
  try {
    return await Array.fromAsync(fetched)
  } finally {
    signal?.removeEventListener('abort', stop)
  }
}

/** Made again when the stream was. */
async function openConsumer (connection: NatsConnection): Promise<Consumer> {
  const { consumers } = jetstream(connection)
  try {
    return await consumers.get(WARNINGS_STREAM, WARNINGS_CONSUMER)
  } catch (error) {
    if (!(error instanceof JetStreamApiError && error.code === JetStreamApiCodes.ConsumerNotFound)) throw error
    await (await jetstreamManager(connection)).consumers.add(WARNINGS_STREAM, {
      durable_name: WARNINGS_CONSUMER,
      ack_policy: AckPolicy.Explicit,
      deliver_policy: DeliverPolicy.All,
      ack_wait: ACK_WAIT_MS * 1e6,
      max_ack_pending: 10 * MAX_MESSAGES
    })
    return await consumers.get(WARNINGS_STREAM, WARNINGS_CONSUMER)
  }
}

/** Never throws: a foreign message would be redelivered indefinitely. */
function readMessage (message: JsMsg, logger: Logger): WarningsMessage {
  try {
    const { source, totals, drops = [] } = message.json<WarningsMessage>()
    return { source, totals: [...totals], drops: [...drops] }
  } catch (err) {
    logger.error({ err, sequence: message.seq }, 'a message of ingestion warnings cannot be read and is discarded')
    return { source: '', totals: [] }
  }
}

/** The traces of dropped events. */
function toTraces ({ source, drops = [] }: WarningsMessage): Record<string, unknown>[] {
  return drops.map(({ rule, ...drop }) =>
    // Of an event that a rule dropped, with the rule's name.
    toTraceRow({ ...drop, reason: rule === undefined ? drop.reason : `${drop.reason}: ${rule}`, kind: 'dropped', process: source, partition: '', sequence: 0, row: 0 }))
}

/** One row for each total, the highest, with the samples of all. */
function mergeTotals (read: readonly WarningsMessage[]): Record<string, unknown>[] {
  const sent = read.flatMap(({ source, totals }) => totals.map((total) => ({ source, total })))
  const groups = Map.groupBy(sent, ({ source, total }) =>
    `${sourceOf(source, total)} ${total.projectId} ${total.minute} ${total.reason}`)
  return [...groups.values()].map((alike) => {
    const [{ source, total }] = alike as [typeof sent[number]]
    return toWarningRow(source, {
      ...total,
      count: Math.max(...alike.map((each) => each.total.count)),
      samples: alike.flatMap((each) => each.total.samples)
    })
  })
}
