/** What ingest does with an event: the steps of a running ingest process, without its connections. */
import type { NormalisedEvent } from '../../ingest/normalise/normalise-event.ts'
import type { DropReason, RequestContext } from '../../ingest/event.ts'
import { createTakeEvent } from '../../ingest/capture/take-event.ts'
import { hasLongNumber, parseJson, roundFields } from '../../engines/body/parse-json.ts'
import type { EnforcedProject } from '../../ingest/enforcement/read-projects.ts'
import type { SchemaFailure } from '../../engines/json-schema/evaluation.ts'
import { NOW, type RandomEvent } from './random-traffic.ts'
import { createPlainNormaliser } from '../support/plain-normaliser.ts'

/** What became of an event. */
export interface Verdict {
  /** Why it is not stored; null: it is, or it is quarantined. */
  reason: DropReason | null
  quarantined: SchemaFailure | null
  rejected: SchemaFailure | null
  /** Id of the rule that dropped it or sampled it out. */
  droppedBy: number | null
  /** Ids of the rules that changed it. */
  changedBy: number[]
  /** The event as rules have left it; null when one dropped it. */
  event: NormalisedEvent | null
}

/** Takes an event as a project's ingest does. */
export type Ingest = (event: RandomEvent, project: EnforcedProject) => Verdict

/** Larger than any event of a test. */
const MAX_EVENT_BYTES = 64_000_000

/**
 * @returns a function that takes an event, and throws on what ingest would count as a bug of its own.
 */
export function createIngest (): Ingest {
  let normalised: NormalisedEvent | null = null
  const normalise = createPlainNormaliser({ now: () => NOW, maxEventBytes: MAX_EVENT_BYTES })
  const takeEvent = createTakeEvent({
    normaliseEvent (sent, context) {
      const result = normalise(sent, context)
      if (!('kind' in result)) normalised = result
      return result
    },
    isAnnounced: () => true,
    maxPayloadBytes: () => MAX_EVENT_BYTES,
    onUnexpected: (error) => { throw error }
  })

  return function ingest ({ body, ip }, project) {
    normalised = null
    const context: RequestContext = {
      project, requestId: 'r', receivedAt: NOW, sentAt: null, ip, historical: false, visitor: { address: ip, userAgent: '' },
      isAttemptTime: false
    }
    const sent = parseJson(body, hasLongNumber(Buffer.from(body)))
    roundFields(sent)
    const outcome = takeEvent(sent, context)
    const failure = outcome.unmet?.failure ?? null
    return {
      reason: outcome.kind === 'dropped' ? outcome.reason : null,
      quarantined: outcome.kind === 'quarantined' ? failure : null,
      rejected: outcome.kind === 'dropped' ? failure : null,
      droppedBy: outcome.kind === 'dropped' ? outcome.rule?.id ?? null : null,
      changedBy: outcome.changedBy.map(({ id }) => id),
      event: normalised
    }
  }
}
