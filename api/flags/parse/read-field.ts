import { MalformedFlagError } from '../malformed-flag-error.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/** @throws {MalformedFlagError} when the value is not a JSON object. */
export function readObject (value: unknown, attr: string): JsonObject {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonObject
  throw new MalformedFlagError(value === undefined ? 'required' : 'invalid', attr, 'This field must be an object.')
}

/** Absent and null are an empty list. @throws {MalformedFlagError} when the value is anything else but an array. */
export function readArray (value: unknown, attr: string): readonly unknown[] {
  if (value == null) return []
  if (Array.isArray(value)) return value
  throw new MalformedFlagError('invalid', attr, 'This field must be an array.')
}

/** Absent and null are `otherwise`. @throws {MalformedFlagError} when the value is not a number. */
export function readNumber (value: unknown, attr: string, otherwise: number): number {
  if (value == null) return otherwise
  if (typeof value === 'number') return value
  throw new MalformedFlagError('invalid', attr, 'This field must be a number.')
}

/** A group type index; absent and null are null. @throws {MalformedFlagError} */
export function readIndex (value: unknown, attr: string): number | null {
  if (value == null) return null
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number
  throw new MalformedFlagError('invalid', attr, 'This field must be the index of a group type.')
}
