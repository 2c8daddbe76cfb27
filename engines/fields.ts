/** Whether a value is an object of JSON: neither null nor a list. */
export function isFields (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The items of a value that is a list; none of any other. */
export function itemsOf (value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** The fields of a value that is an object; none of any other. */
export function fieldsOf (value: unknown): Readonly<Record<string, unknown>> {
  return isFields(value) ? value : {}
}
