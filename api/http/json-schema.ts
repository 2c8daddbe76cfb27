/** Short forms of the JSON schemas that describe requests and answers. */

/** An object that has each of these properties. `more` are other keywords, such as `$id` and `description`. */
export function object<const Properties extends object> (
  properties: Properties, more: object = {}
): { type: 'object', required: string[], properties: Properties } {
  return { type: 'object', required: Object.keys(properties), properties, ...more }
}

/** The same, or null. */
export function nullableObject (properties: object, description: string): object {
  return object(properties, { type: ['object', 'null'], description })
}

/** An array of these items. */
export function array<const Items extends object> (items: Items, more: object = {}): { type: 'array', items: Items } {
  return { type: 'array', items, ...more }
}
