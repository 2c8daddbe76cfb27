import { Transform } from 'node:stream'

const QUOTE = 0x22

/** With what a spreadsheet takes a cell for a formula: = + - @, tab and carriage return. */
const BEGINS_FORMULA = new Set([0x3d, 0x2b, 0x2d, 0x40, 0x09, 0x0d])

const APOSTROPHE = Buffer.from('\'')

/**
 * Passes CSV of ClickHouse on, and begins each text with an apostrophe that a spreadsheet would run as a formula: names
 * and properties of events are what anybody sent. Numbers, which are not quoted, stay as they are.
 *
 * Tells where a text begins by quotes alone, so that it does so with any delimiter: a quote outside of a text begins
 * one, unless it follows the quote that seemed to end one, as quotes in a text are doubled.
 */
export function guardFormulas (): Transform {
  let isInText = false
  /** The last byte ended a text, or seemed to. */
  let hasEnded = false
  /** The last byte began a text. */
  let hasBegun = false
  return new Transform({
    transform (chunk: Buffer, _, done) {
      const out: Uint8Array[] = []
      let from = 0
      const guard = (at: number): void => {
        if (!BEGINS_FORMULA.has(chunk[at] ?? 0)) return
        out.push(chunk.subarray(from, at), APOSTROPHE)
        from = at
      }
      if (hasBegun && chunk.length > 0) guard(0)
      if (chunk.length > 0) hasBegun = false
      let ended = hasEnded ? -1 : -2
      for (let at = chunk.indexOf(QUOTE); at !== -1; at = chunk.indexOf(QUOTE, at + 1)) {
        const isDoubled = !isInText && at === ended + 1
        if (isInText) ended = at
        else if (!isDoubled && at + 1 < chunk.length) guard(at + 1)
        else if (!isDoubled) hasBegun = true
        isInText = !isInText
      }
      if (chunk.length > 0) hasEnded = !isInText && ended === chunk.length - 1
      out.push(chunk.subarray(from))
      done(null, Buffer.concat(out))
    }
  })
}
