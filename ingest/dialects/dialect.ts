import { fieldsOf } from '../../engines/fields.ts'
import type { DropReason } from '../event.ts'
import type { WarningReason } from '../../schema/wire/ingestion-warnings.ts'

/**
 * What a request in another form than that of PostHog's SDKs says beside its body. Plain data, as it goes to the
 * threads that take large bodies.
 */
export interface DialectRequest {
  name: 'capture-v1' | 'segment' | 'multipart'
  apiKey: string
  /** When this attempt was sent, by a header, epoch milliseconds; null: the body says it, if anything does. */
  attemptSentAt: number | null
  /** Of the SDK, `name/version`; empty when unknown. */
  sdk: string
  /** What the path says that the only event of the body is; empty for a batch. */
  eventType: string
}

/** An event as PostHog's SDKs would send it, or why it is dropped; and how the client names it. */
export interface Translated {
  event: unknown
  drop: DropReason | null
  /** As sent; empty if the client gets no result per event. */
  uuid: string
  /** The dialect's term for the error or warning about the event. */
  detail?: string
  /** Warnings to count for an event that is stored anyway, each with a sample value. */
  warnings?: { reason: WarningReason, value: string }[]
}

export interface Dialect {
  /** The client gets a result for each event; otherwise an event that cannot be stored fails the request. */
  readonly answersEachEvent: boolean
  /** @throws {HttpError} 400 for events that make the whole body invalid. Nothing of it has been taken then. */
  checkEvents?: (events: readonly unknown[]) => void
  translate (event: unknown): Translated
}

/**
 * An event of a language model that came in parts (`engines/body/multipart-event.ts`): one of PostHog's SDKs but for
 * the lists of the parts that were left out, or are not UTF-8, which become warnings.
 */
export function createMultipart (): Dialect {
  return {
    answersEachEvent: false,
    translate (sent): Translated {
      const { left_out: leftOut, not_utf8: notUtf8, ...event } = fieldsOf(sent)
      const warnings: Translated['warnings'] = []
      if (isTextList(leftOut)) warnings.push({ reason: 'part_left_out', value: leftOut.join('; ') })
      if (isTextList(notUtf8)) warnings.push({ reason: 'text_replaced', value: `in the part ${notUtf8.join(', ')}` })
      return { event, drop: null, uuid: '', warnings }
    }
  }
}

function isTextList (value: unknown): value is string[] {
  return Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string')
}
