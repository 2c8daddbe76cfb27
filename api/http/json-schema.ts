/** Short forms of the JSON schemas that describe requests and answers, and the types of what they describe. */

export const string = { type: 'string' } as const
export const integer = { type: 'integer' } as const
export const boolean = { type: 'boolean' } as const
export const time = { type: 'string', format: 'date-time' } as const
export const timeOrNull = { type: ['string', 'null'], format: 'date-time' } as const

export const count = (description: string) => ({ type: 'integer', description }) as const

/** An object that has each of these properties. `more` are other keywords, such as `$id` and `description`. */
export function object<const Properties extends object> (
  properties: Properties, more: object = {}
): { type: 'object', required: string[], properties: Properties } {
  return { type: 'object', required: Object.keys(properties), properties, ...more }
}

/** An object that may have each of these properties. */
export function optional<const Properties extends object> (
  properties: Properties, more: object = {}
): { type: 'object', properties: Properties } {
  return { type: 'object', properties, ...more }
}

/** An object that has the required ones of these properties, and may have the others. */
export function partial<const Properties extends object, Required extends keyof Properties> (
  properties: Properties, ...required: Required[]
): { type: 'object', required: Required[], properties: Properties } {
  return { type: 'object', required, properties }
}

/** The body of a request: these properties, of them at least the required ones, and no others. */
export function bodyOf<const Properties extends object, Required extends keyof Properties> (
  properties: Properties, ...required: Required[]
): ReturnType<typeof partial<Properties, Required>> & { additionalProperties: false } {
  return { ...partial(properties, ...required), additionalProperties: false }
}

/** What a body may write. Clients may send back a whole object: read-only fields are accepted and ignored. */
export function writableBody<Writable extends object> (
  writable: Writable, readOnly: object
): { type: 'object', additionalProperties: false, properties: Writable } {
  const ignored = Object.fromEntries(Object.keys(readOnly).map((name) => [name, { readOnly: true }]))
  return { type: 'object', additionalProperties: false, properties: { ...writable, ...ignored } }
}

export function nullableObject<const Properties extends object> (
  properties: Properties, description: string
): { type: ['object', 'null'], description: string, required: string[], properties: Properties } {
  return { ...object(properties), type: ['object', 'null'], description }
}

export function array<const Items extends object> (items: Items, more: object = {}): { type: 'array', items: Items } {
  return { type: 'array', items, ...more }
}

/**
 * Renames the fields of a value of ours to the case of the API, all the way down. Numbers that JSON cannot carry
 * become null. Only for objects whose field names are ours: keys of variants are values, not names.
 */
export function toSnakeCase (value: object): object {
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [
    name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), valueInSnakeCase(item)
  ]))
}

function valueInSnakeCase (value: unknown): unknown {
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (Array.isArray(value)) return value.map(valueInSnakeCase)
  return typeof value === 'object' && value !== null ? toSnakeCase(value) : value
}

declare const VALUE: unique symbol

/** A schema that is put together at run time, with the values that it describes. */
export interface SchemaOf<T> { readonly [VALUE]: T }

export function schemaOf<T> (schema: object): SchemaOf<T> {
  return schema as SchemaOf<T>
}

/** The values that a schema describes. Properties are optional unless they are required or have a default. */
export type Value<S, Time = string> = S extends SchemaOf<infer T> ? T : OfSchema<S, Time>

type OfSchema<S, Time> = S extends { enum: readonly (infer One)[] } ? One
  : S extends { type: readonly (infer Type)[] } ? OfType<S, Type, Time>
    : S extends { type: infer Type } ? OfType<S, Type, Time> : unknown

/** The same with the times of Postgres, which become ISO 8601 in JSON. */
export type Row<S> = Value<S, Date>

type OfType<S, Type, Time> = Type extends 'string' ? S extends { format: 'date-time' } ? Time : string
  : Type extends 'integer' | 'number' ? number
    : Type extends 'boolean' ? boolean
      : Type extends 'null' ? null
        : Type extends 'array' ? S extends { items: infer Items } ? Value<Items, Time>[] : unknown[]
          : S extends { properties: infer P } ? OfProperties<P, Given<S, P>, Time>
            : S extends { additionalProperties: infer More extends object } ? Record<string, Value<More, Time>>
              : Record<string, unknown>

type Given<S, P> = (S extends { required: readonly (infer Name)[] } ? string extends Name ? keyof P : Name : never) |
  { [Name in keyof P]: P[Name] extends { default: unknown } ? Name : never }[keyof P]

type OfProperties<P, Names, Time> =
  { -readonly [Name in keyof P as Name extends Names ? Name : never]: Value<P[Name], Time> } &
  { -readonly [Name in keyof P as Name extends Names ? never : Name]?: Value<P[Name], Time> }
