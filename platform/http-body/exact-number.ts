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

/** Fields of an event whose type decides what they mean; numbers there stay plain. */
const PLAIN = new Set([
  'batch', 'properties', 'timestamp', 'sent_at', 'offset', 'project_id', '$set', '$set_once', '$unset', '$groups', '$group_set'
])

export function isExactNumber (value: unknown): value is ExactNumber {
  return json.isRawJSON(value)
}

/** A reviver of `JSON.parse` that keeps the text of whole numbers which a double cannot hold, such as 64-bit ids. */
export function keepDigits (key: string, value: unknown, { source }: { source?: string }): unknown {
  if (typeof value !== 'number' || source === undefined || Number.isSafeInteger(value) || PLAIN.has(key)) return value
  return /^-?\d+$/.test(source) && String(value) !== source ? json.rawJSON(source) : value
}
