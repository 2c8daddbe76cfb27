import { createHash } from 'node:crypto'
import type { HasLetterRoom } from '../../platform/dead-letters/letter-room.ts'
import { STREAM_FULL } from '../../platform/dead-letters/publish-dead-letter.ts'
import { DEAD_LETTER_HEADER, deadLetterHeaders } from '../../schema/wire/dead-letter-message.ts'
import { MillraceError } from '../../engines/errors.ts'
import { codeOfSchemaFailure, describeSchemaFailure } from '../../engines/json-schema/describe-failure.ts'
import type { Metrics } from '../../platform/metrics.ts'
import { cutText } from '../../engines/body/storable-text.ts'
import type { FingerprintKey } from '../../schema/wire/frame-message.ts'
import { MAX_SAMPLE_TEXT } from '../../schema/wire/ingestion-warnings.ts'
import { deadLetterSubject, eventsSubject, HEADER } from '../../schema/wire/streams.ts'
import type { Quarantined, RequestContext } from '../event.ts'
import { FrameEncoder } from '../frames/frame-encoder.ts'
import { formatUuid } from '../../engines/uuid.ts'
import type { OutgoingMessage, Publish } from './acknowledged-publisher.ts'
import { frameHeaders, routeRow } from './event-partitions.ts'
import type { WarningTotals } from '../warnings/warning-totals.ts'

/** Reason of the dead letters of stage `schema`. */
export const NOT_MET = 'not_met'

/** Makes dead letters of events that do not meet their schema. */
export type BuildLetter = (event: Quarantined, context: RequestContext) => OutgoingMessage

/** Where events that do not meet their schema go. */
export interface Quarantine {
  buildLetter: BuildLetter
  publish: Publish
}

/**
 * A letter is a message of the event alone, as the stream would have had it without the schema. So a replay stores just
 * what would have been stored, without another check, and the writer recognises it when it is there already.
 *
 * Its id follows from the identity of the event: a request that a client repeats within two minutes leaves one letter.
 *
 * @param partitions      Of events.
 * @param fingerprintKey  The secret of fingerprints, null until it is known.
 */
export function createBuildLetter (partitions: number, fingerprintKey: () => FingerprintKey | null): BuildLetter {
  const encoders = {
    live: new FrameEncoder(fingerprintKey, 'live'), historical: new FrameEncoder(fingerprintKey, 'historical')
  }

  return function buildLetter ({ row, unmet: { failure } }, context) {
    const version = Math.abs(row.schemaVersion)
    const { eventClass, partition } = routeRow(row, context, partitions)
    const encoder = encoders[eventClass]
    encoder.append({ ...row, schemaVersion: 0 })
    const frame = encoder.take()
    const uuid = formatUuid(row.uuid)
    const identity = JSON.stringify([row.projectId, row.event, row.distinctId, uuid])
    return {
      subject: deadLetterSubject('schema', NOT_MET, row.projectId, frame.payload.length),
      id: `dead:schema-${createHash('sha1').update(identity).digest('hex')}`,
      headers: {
        ...frameHeaders(frame, context.requestId),
        ...deadLetterHeaders({
          stage: 'schema',
          reason: NOT_MET,
          error: `version ${version} of the schema is not met: ${describeSchemaFailure(failure)}`,
          errorCode: codeOfSchemaFailure(failure),
          subject: eventsSubject(eventClass, partition),
          project: row.projectId,
          event: row.event,
          uuid
        })
      },
      payload: frame.payload
    }
  }
}

export interface LetterPublishing {
  publish: Publish
  hasRoom: HasLetterRoom
  /** Called with each letter that was stored as the event it is about. */
  onStored: (letter: OutgoingMessage) => void
}

/**
 * Publishes messages; of dead letters those for which the dead-letter stream has room. An event whose letter has none
 * is stored, as a replay of the letter would do: it is not lost, and the events that came with it do not wait until
 * somebody empties that stream, which anybody with the public key of a project can fill.
 */
export function createPublishLetters ({ publish, hasRoom, onStored }: LetterPublishing): Publish {
  return async function publishLetters (message) {
    if (!message.subject.startsWith('dead.')) return await publish(message)
    try {
      if (await mayBeKept(message)) return await publish(message)
    } catch (error) {
      if (!(error instanceof MillraceError && STREAM_FULL.has(error.details.errCode))) throw error
    }
    await publish(toEvent(message))
    onStored(message)
  }

  async function mayBeKept ({ headers, payload }: OutgoingMessage): Promise<boolean> {
    // While NATS does not answer, the letter goes to the spool, as everything does.
    return await hasRoom(Number(headers[DEAD_LETTER_HEADER.project]), payload.length).catch(() => true)
  }
}

/** Counts events of a project against its quota. */
export type Spend = (projectId: number, events: number) => void

/**
 * Counts them, also against the quotas of their projects, and warns these. They are included in the count of
 * quarantined events, which quotas do not count.
 */
export function countStoredLetters (
  metrics: Metrics, warnings: () => Pick<WarningTotals, 'addRefused'> | null, spend: Spend
): LetterPublishing['onStored'] {
  const stored = metrics.counter('events_stored_without_dead_letter_total',
    'Events stored despite their schema, for lack of room in the dead-letter stream.')
  return ({ headers }) => {
    const projectId = Number(headers[DEAD_LETTER_HEADER.project])
    stored.inc()
    spend(projectId, 1)
    warnings()?.addRefused(projectId, 'schema_not_met', () => ({
      receivedAt: Number(headers[HEADER.received]),
      event: cutText(decodeURIComponent(headers[DEAD_LETTER_HEADER.event] ?? ''), MAX_SAMPLE_TEXT),
      distinctId: '',
      uuid: headers[DEAD_LETTER_HEADER.uuid] ?? '',
      lib: '',
      libVersion: '',
      value: 'no room for a dead letter'
    }))
  }
}

const OF_LETTERS: ReadonlySet<string> = new Set(Object.values(DEAD_LETTER_HEADER))

function toEvent ({ id, headers, payload }: OutgoingMessage): OutgoingMessage {
  return {
    subject: headers[DEAD_LETTER_HEADER.subject] ?? '',
    id,
    headers: Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_LETTERS.has(name))),
    payload
  }
}
