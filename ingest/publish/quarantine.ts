import { createHash } from 'node:crypto'
import { deadLetterHeaders } from '../../platform/dead-letters/publish-dead-letter.ts'
import { codeOfSchemaFailure, describeSchemaFailure } from '../../platform/event-schemas/describe-failure.ts'
import type { SchemaFailure } from '../../platform/event-schemas/evaluation.ts'
import type { FingerprintKey } from '../../schema/frame-message.ts'
import { deadLetterSubject, eventsSubject } from '../../schema/streams.ts'
import type { RequestContext } from '../capture/envelope.ts'
import { FrameEncoder } from '../frames/frame-encoder.ts'
import type { EventRow } from '../normalise/event-row.ts'
import { formatUuid } from '../normalise/uuid.ts'
import type { OutgoingMessage } from './durable-publisher.ts'
import { frameHeaders, routeRow } from './event-partitions.ts'

/** Reason of the dead letters of stage `schema`. */
export const NOT_MET = 'not_met'

/** Makes dead letters of events that do not meet their schema. */
export type BuildLetter = (row: EventRow, failure: SchemaFailure, context: RequestContext) => OutgoingMessage

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
  const encoder = new FrameEncoder(fingerprintKey)

  return function buildLetter (row, failure, context) {
    const version = Math.abs(row.schemaVersion)
    encoder.append({ ...row, schemaVersion: 0 })
    const frame = encoder.take()
    const { eventClass, partition } = routeRow(row, context, partitions)
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
