/**
 * Renames the fields of a value of ours to the case of the API, all the way down. Numbers that JSON cannot carry
 * become null. Only for objects whose field names are ours: keys of variants are values, not names.
 */
export function toSnakeCase (value: unknown): unknown {
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (Array.isArray(value)) return value.map(toSnakeCase)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [
    name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), toSnakeCase(item)
  ]))
}
