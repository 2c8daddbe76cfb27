/** Publishes what a spool holds, as soon as the stream takes messages again. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../../platform/logger.ts'
import type { OutgoingMessage, Publish } from '../publish/acknowledged-publisher.ts'
import type { SpooledMessage } from './segment-reader.ts'

export interface DrainOptions {
  /** `drainSome` publishes the oldest messages and removes them; 0 when none is left. */
  spool: { drainSome: (publish: Publish) => Promise<number>, readonly isEmpty: boolean }
  publish: Publish
  logger: Logger
  signal: AbortSignal
}

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1000

/**
 * Publishes the messages of a spool until it is empty, however often the stream refuses; pauses double up to a
 * second. Ends early when aborted: the rest stays on the disk.
 */
export async function drainSpool ({ spool, publish, logger, signal }: DrainOptions): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS
  while (!signal.aborted) {
    const startedAt = performance.now()
    try {
      const published = await spool.drainSome(publish)
      pauseMs = FIRST_PAUSE_MS
      if (published === 0 && spool.isEmpty) return
    } catch (err) {
      logger.debug({ err, retryAfterMs: pauseMs }, 'the spool cannot be drained yet')
      // It waited by itself, as for a new leader.
      if (performance.now() - startedAt > LONGEST_PAUSE_MS) pauseMs = FIRST_PAUSE_MS
      // An abort only ends the pause early.
      await delay(pauseMs, undefined, { signal }).catch(() => {})
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
    }
  }
}

/** Spooled messages of each kind other than persons updates in flight at a time. */
const MAX_IN_FLIGHT = 8

/** Persons updates that follow each other are published as one message up to this size. */
const MAX_MERGED_BYTES = 524_288

/**
 * Publishes a portion of a spool: the persons updates of each partition in their order, eight messages of each other
 * kind at a time, all beside each other. Each of these queues ends at its first failure; the others go on, as one
 * stream may be full while another is not.
 *
 * One message in flight is what keeps the order of updates, and a cluster takes its time for each. While a spool is
 * drained new updates go behind it, so those that follow each other travel together: or else the spool would
 * grow for as long as updates come faster than the stream acknowledges messages one by one.
 *
 * @param options.ahead  Ids of messages that were published although one before them was not; kept from one try to the
 *   next. They are not published again.
 * @returns how many were published before the first that was not, and why that one was not.
 */
export async function publishPortion (
  spooled: readonly SpooledMessage[], { publish, ahead }: { publish: Publish, ahead: Set<string> }
): Promise<{ published: number, failure?: unknown }> {
  const messages = spooled.map(({ message }) => message).filter(({ id }) => !ahead.has(id))
  const queues = Map.groupBy(messages, ({ subject }) => isOrdered(subject) ? subject : subject.split('.', 1)[0])
  const failures: unknown[] = []

  async function publishQueue (queue: OutgoingMessage[], ordered: boolean): Promise<void> {
    let hasFailed = false
    await Promise.all(Array.from({ length: ordered ? 1 : MAX_IN_FLIGHT }, async () => {
      while (queue.length > 0 && !hasFailed) {
        const taken = ordered ? takeMergeable(queue) : queue.splice(0, 1)
        try {
          await publish(mergeMessages(taken))
          for (const { id } of taken) ahead.add(id)
        } catch (error) {
          hasFailed = true
          failures.push(error)
        }
      }
    }))
  }

  await Promise.all([...queues].map(([subject = '', queue]) => publishQueue(queue, isOrdered(subject))))
  const firstLeft = spooled.findIndex(({ message }) => !ahead.has(message.id))
  const published = firstLeft === -1 ? spooled.length : firstLeft
  for (const { message } of spooled.slice(0, published)) ahead.delete(message.id)
  return { published, ...failures.length > 0 && { failure: failures[0] } }
}

function isOrdered (subject: string): boolean {
  return subject.startsWith('persons.')
}

/** The first message, and those behind it that fit into one with it. */
function takeMergeable (queue: OutgoingMessage[]): OutgoingMessage[] {
  let bytes = 0
  let count = 0
  for (const message of queue) {
    bytes += message.payload.length
    if (count > 0 && (bytes > MAX_MERGED_BYTES || !isMergeable(message) || !isMergeable(queue[0]!))) break
    count++
  }
  return queue.splice(0, count)
}

/** A JSON array with something in it, and no headers that would belong to it alone. */
function isMergeable ({ payload, headers }: OutgoingMessage): boolean {
  return Object.keys(headers).length === 0 && payload.length > 2 && payload[0] === OPEN && payload.at(-1) === CLOSE
}

/**
 * The updates of all messages, in their order, in one. If it is sent again after a crash, together with other messages,
 * the pipeline recognises the updates themselves (`pipeline/persons/fingerprints.ts`).
 */
function mergeMessages (messages: readonly OutgoingMessage[]): OutgoingMessage {
  const first = messages[0]!
  if (messages.length === 1) return first
  const parts = messages.flatMap(({ payload }, index) => [index === 0 ? '[' : ',', payload.subarray(1, -1)])
  return {
    ...first, id: `${first.id}+${messages.at(-1)!.id}`,
    payload: Buffer.concat([...parts, ']'].map((part) => typeof part === 'string' ? Buffer.from(part) : part))
  }
}

/** The brackets of a list in JSON. */
const [OPEN, CLOSE] = [0x5b, 0x5d] as const
