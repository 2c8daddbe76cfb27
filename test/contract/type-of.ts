export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
export const DATE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** Describes a value in the words of the contract. */
export function typeOf (value: unknown): string {
  if (Number.isInteger(value)) return 'integer'
  if (Array.isArray(value)) return 'array'
  return value === null ? 'null' : typeof value
}

/** The same for every field of an object. */
export function typesOf (fields: object): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).map(([field, value]) => [field, typeOf(value)]))
}
