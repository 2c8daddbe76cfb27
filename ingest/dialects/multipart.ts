import { type Dialect, fieldsOf, type Translated } from './dialect.ts'

/**
 * An event of a language model that came in parts (`http-body/multipart-event.ts`): an event of PostHog's SDKs but for
 * the list of the parts that were left out, which becomes a warning.
 */
export function createMultipart (): Dialect {
  return {
    answersEachEvent: false,
    checkEvents () {},
    translate (sent): Translated {
      const { left_out: leftOut, ...event } = fieldsOf(sent)
      const isWhole = !Array.isArray(leftOut) || leftOut.length === 0
      return { event, drop: null, uuid: '', ...(!isWhole && { warning: { reason: 'part_left_out', value: leftOut.join('; ') } }) }
    }
  }
}
