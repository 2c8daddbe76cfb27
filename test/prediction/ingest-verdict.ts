/** What ingest does with an event: the steps of a running ingest process, without its connections. */
import type { NormalisedEvent } from '../../ingest/normalise/normalise-event.ts'
import type { DropReason, RequestContext } from '../../ingest/event.ts'
import { createTakeEvent } from '../../ingest/capture/take-event.ts'
import { hasLongNumber, parseJson, roundFields } from '../../engines/body/parse-json.ts'
import type { Project } from '../../platform/directory/read-keys.ts'
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
export type Ingest = (event: RandomEvent, project: Project) => Verdict

/** Larger than any event of a test. */
const MAX_EVENT_BYTES = 64_000_000

/**
 * @returns a function that takes an event, and throws on what ingest would count as a bug of its own.
 */
export function createIngest (): Ingest {
  let normalised: NormalisedEvent | null = null
  const normalise = createPlainNormaliser({ now: () => NOW, maxEventBytes: MAX_EVENT_BYTES })
  const takeEvent = createTakeEvent((sent, context) => {
    const result = normalise(sent, context)
    if (typeof result !== 'string') normalised = result
    return result
  }, { maxPayloadBytes: () => MAX_EVENT_BYTES, onUnexpected: (error) => { throw error } })

  return function ingest ({ body, ip }, project) {
    normalised = null
    let quarantined: SchemaFailure | null = null
    let handedOver = false
    const context: RequestContext = {
      project, requestId: 'r', receivedAt: NOW, sentAt: null, ip, historical: false, visitor: { address: ip, userAgent: '' },
      warnings: null, isAttemptTime: false
    }
    const sent = parseJson(body, hasLongNumber(Buffer.from(body)))
    roundFields(sent)
    const reason = takeEvent(sent, context, {
      appendRow: () => { handedOver = true },
      quarantine: (_row, failure) => { quarantined = failure },
      appendUpdate: () => {},
      isAnnounced: () => true
    })
    if ([reason !== null, quarantined !== null, handedOver].filter(Boolean).length !== 1) {
      throw new Error(`an event has not one fate: ${JSON.stringify({ reason, quarantined, handedOver })} ${body}`)
    }
    return {
      reason,
      quarantined,
      rejected: reason === 'schema_rejected' ? context.schemaFailure ?? null : null,
      droppedBy: reason === 'rule_dropped' || reason === 'rule_sampled' ? context.rule?.id ?? null : null,
      changedBy: context.warnings?.definitions?.flatMap(({ of: { rule } }) => rule ?? []) ?? [],
      event: normalised
    }
  }
}
