/**
 * Who may still add to the dead-letter stream. What people send can be the reason of a dead letter: a change of a
 * person that is too large, an event that does not meet its schema. Anybody with a public key could so fill the stream,
 * and keep others from their dead letters, or the pipeline from its own.
 *
 * ```
 *   0             50 %                  90 %     100 % of MILLRACE_DEAD_LETTER_MAX_BYTES
 *   | every project | who has less than   | only letters of no project,
 *   |               | 10 % of the stream  | and rows that ClickHouse refuses
 * ```
 */
import { deadLetterSubjectsOf, DEAD_LETTER_STREAM, letterBytes } from '../../schema/wire/streams.ts'
import type { NatsConnection } from '../nats/connect-nats.ts'
import { manageJetStream } from '../nats/prepare-jetstream.ts'
import { readStreamInfo } from '../nats/stream-info.ts'

const SHARED_FILL = 0.5
const MAX_FILL = 0.9
const MAX_PROJECT_SHARE = 0.1

/** How long a reading of the stream is valid, ms. Letters added in between are counted here. */
const REMEMBERED_MS = 1000

/** Readings that are remembered: a project each. */
const MAX_REMEMBERED = 1000

/**
 * Whether the stream has room for a letter of a project, and notes it as added.
 *
 * @param project  Absent: the letter is about none, and people cannot cause it.
 * @throws while NATS does not answer.
 */
export type HasLetterRoom = (project: number | undefined, bytes: number) => Promise<boolean>

interface Reading {
  at: number
  /** Bytes of the letters of a project. */
  bytes: Promise<number>
  added: number
}

export function createLetterRoom (connection: NatsConnection): HasLetterRoom {
  const fill = { bytes: 0, maxBytes: Infinity }
  let readings = new Map<number, Reading>()

  return async function hasLetterRoom (project, bytes) {
    if (project === undefined) return true
    let reading = readings.get(project)
    if (reading === undefined || performance.now() - reading.at > REMEMBERED_MS) {
      if (readings.size >= MAX_REMEMBERED) readings = new Map()
      reading = { at: performance.now(), bytes: readBytesOf(project), added: 0 }
      readings.set(project, reading)
      // The next one asks again.
      reading.bytes.catch(() => readings.delete(project))
    }
    const own = await reading.bytes + reading.added + bytes
    const all = fill.bytes + bytes
    if (all > fill.maxBytes * MAX_FILL) return false
    if (all > fill.maxBytes * SHARED_FILL && own > fill.maxBytes * MAX_PROJECT_SHARE) return false
    fill.bytes += bytes
    reading.added += bytes
    return true
  }

  async function readBytesOf (project: number): Promise<number> {
    const manager = await manageJetStream(connection)
    const { state, config } = await readStreamInfo(
      manager, DEAD_LETTER_STREAM, { subjects_filter: deadLetterSubjectsOf(project) })
    fill.bytes = state.bytes
    fill.maxBytes = config.max_bytes > 0 ? config.max_bytes : Infinity
    const letters = Object.entries(state.subjects ?? {})
    return letters.reduce((sum, [subject, count]) => sum + count * letterBytes(subject), 0)
  }
}
