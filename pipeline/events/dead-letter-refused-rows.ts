/** Makes dead letters of what ClickHouse refuses, and of messages that are no events. */
import { decodeFrame, encodeFrame } from '../../schema/wire/frame-codec.ts'
import { describeRows, type NativeBlock, pickRows } from '../../schema/wire/native-block.ts'
import { DeadLettersFullError, publishDeadLetter } from '../../platform/dead-letters/publish-dead-letter.ts'
import type { NewDeadLetter } from '../../schema/wire/dead-letter-message.ts'
import { pause, retryDelayMs } from '../../platform/intervals.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Counter } from '../../platform/metrics.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { FINGERPRINT_BYTES } from '../../schema/wire/frame-message.ts'
import { ledgerKey, minuteOfReceipt } from '../../schema/wire/ledger.ts'
import { eventsSubject, HEADER } from '../../schema/wire/streams.ts'
import type { Partition } from '../stream/find-partitions.ts'
import type { PartitionState } from '../stream/partition-state.ts'
import type { InsertError } from './insert/insert-frames.ts'
import type { PartitionMessage } from './events-reader.ts'

/**
 * Why the writer dead-letters a row or a message.
 *
 * - `malformed`: the message is not a frame of events; it is kept whole.
 * - `refused`: ClickHouse does not take this row; it is kept alone, its neighbours are stored.
 */
export const WRITER_REFUSALS = ['malformed', 'refused'] as const

export type WriterRefusal = (typeof WRITER_REFUSALS)[number]

/** What cannot be stored: one row, or a whole message. */
export interface Refused {
  message: PartitionMessage
  /** The one row; absent for the whole message. */
  row?: number
  error: InsertError | null
  /** Token of the batch range: makes a second letter for the same row recognisable. */
  token: string
}

export interface DeadLetterRowsDeps {
  partition: Partition
  connection: NatsConnection
  state: PartitionState
  metrics: {
    deadLetters: Counter<'stage' | 'reason'>
    /** Counts the tries that the full dead-letter stream refused. */
    deadLettersWaiting: Counter<'partition'>
  }
  logger: Logger
  stop: AbortSignal
}

/**
 * Dead-letters a message or a row. While the dead-letter stream is full or unavailable the partition waits here, with
 * errors in the log: it neither loses the event nor continues without it.
 *
 * @returns false when the process stops before the stream took it.
 */
export async function deadLetterRows (deps: DeadLetterRowsDeps, refused: Refused): Promise<boolean> {
  const { state, metrics, logger, stop } = deps
  const letter = await buildLetter(deps.partition, refused)
  for (let attempt = 0; !stop.aborted; attempt++) {
    try {
      await publishDeadLetter(deps.connection, letter)
      metrics.deadLetters.inc({ stage: letter.stage, reason: letter.reason })
      logger.warn({ partition: state.key, reason: letter.reason, error: letter.error, sequence: letter.sequence },
        'row or message dead-lettered')
      return true
    } catch (error) {
      const isFull = error instanceof DeadLettersFullError
      if (isFull) metrics.deadLettersWaiting.inc({ partition: state.key })
      state.phase = isFull ? 'dead-letter-full' : 'retrying'
      state.lastError = error instanceof Error ? error.message : String(error)
      logger.error({ err: error, partition: state.key, attempt }, 'dead letter could not be stored; the partition waits and retries')
      await pause(retryDelayMs(attempt), stop)
    }
  }
  return false
}

/** Reads the block of a message; null when it cannot be read, so that it can only be dead-lettered whole. */
export async function openBlock (message: PartitionMessage): Promise<NativeBlock | null> {
  try {
    const block = await decodeFrame(message.frame)
    return block.rows === message.rows ? block : null
  } catch {
    // The reason is ClickHouse's, which refused it before.
    return null
  }
}

async function buildLetter (partition: Partition, { message, row, error, token }: Refused): Promise<NewDeadLetter> {
  const reason: WriterRefusal = row === undefined ? 'malformed' : 'refused'
  const common = {
    stage: 'writer',
    reason,
    error: error?.message ?? 'the headers do not describe a frame of events',
    ...(error === null ? {} : { errorCode: error.clickhouseCode }),
    subject: eventsSubject(partition.eventClass, partition.number),
    sequence: message.sequence,
    id: token
  } as const
  const block = row === undefined ? null : await openBlock(message)
  if (row === undefined || block === null) return { ...common, headers: message.headers, body: message.payload }

  const one = pickRows(block, [row])
  const [event = {}] = describeRows(one)
  const fingerprint = message.payload.subarray(row * FINGERPRINT_BYTES, (row + 1) * FINGERPRINT_BYTES)
  return {
    ...common,
    project: Number(event.project_id),
    event: String(event.event),
    uuid: String(event.uuid),
    headers: { ...message.headers, [HEADER.rows]: '1', [HEADER.accepted]: acceptedOf(event) },
    body: Buffer.concat([fingerprint, await encodeFrame(one)])
  }
}

/** The header of a message with this event alone. */
function acceptedOf (event: Record<string, unknown>): string {
  return `${ledgerKey(Number(event.project_id), minuteOfReceipt(Date.parse(String(event.received_at))))}:1`
}
