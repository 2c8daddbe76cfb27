import { type Dialect, fieldsOf, type Translated } from './dialect.ts'

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
      if (isList(leftOut)) warnings.push({ reason: 'part_left_out', value: leftOut.join('; ') })
      if (isList(notUtf8)) warnings.push({ reason: 'text_replaced', value: `in the part ${notUtf8.join(', ')}` })
      return { event, drop: null, uuid: '', warnings }
    }
  }
}

function isList (value: unknown): value is unknown[] {
  return Array.isArray(value) && value.length > 0
}
