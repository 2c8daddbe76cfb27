/** A number of JSON text with all its digits, as `JSON.rawJSON` makes it: `JSON.stringify` writes it as it was. */
export interface ExactNumber {
  readonly rawJSON: string
}

interface ExactJson {
  isRawJSON: (value: unknown) => boolean
  rawJSON: (text: string) => ExactNumber
}

/** Not yet in the types of the language. */
const json = JSON as unknown as ExactJson

export function isExactNumber (value: unknown): value is ExactNumber {
  return json.isRawJSON(value)
}

/** For `JSON.parse`: whole numbers that a double cannot hold become exact ones, where the browser has those. */
export function keepDigits (_key: string, value: unknown, { source }: { source?: string } = {}): unknown {
  if (typeof value !== 'number' || source === undefined || Number.isSafeInteger(value)) return value
  return /^-?\d+$/.test(source) && numberText(value) !== source ? json.rawJSON(source) : value
}

/**
 * The text of a number, the same for equal numbers however they were sent (`1`, `1.0` and `1e0` are "1", -0 is "0"): a
 * whole number has all its digits, where JavaScript writes an exponent from 1e21 on; others are as JavaScript has them.
 */
export function numberText (value: number | ExactNumber): string {
  if (typeof value !== 'number') return value.rawJSON
  const text = String(value)
  if (!text.includes('e+')) return text
  const [, first, rest = '', exponent] = /^(-?\d)(?:\.(\d+))?e\+(\d+)$/.exec(text) ?? []
  return first === undefined ? text : first + rest.padEnd(Number(exponent), '0')
}
