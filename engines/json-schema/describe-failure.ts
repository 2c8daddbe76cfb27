/** Descriptions of schema failures, the same at ingest and in checks of stored events. */
import { stringifyJson } from '../body/stringify-json.ts'
import { cutText } from '../body/storable-text.ts'
import type { SchemaFailure } from './evaluation.ts'

/** Characters of a value in a message about it. */
const MAX_VALUE_LENGTH = 200

/** Of the path and keyword of a failure: what a filter of dead letters takes. */
const MAX_CODE_LENGTH = 100

/** Human-readable failure: `/plan enum "gold"`. */
export function describeSchemaFailure ({ path, keyword, value }: SchemaFailure): string {
  const text = describeValue(value)
  return `${path === '' ? '/' : path} ${keyword}${text === '' ? '' : ` ${text}`}`
}

/** The JSON of the value at fault, cut; empty when it is missing. */
export function describeValue (value: unknown): string {
  return value === undefined ? '' : cutText(stringifyJson(value), MAX_VALUE_LENGTH)
}

/** The same for all failures of a kind, to group them by: without the value. */
export function codeOfSchemaFailure ({ path, keyword }: SchemaFailure): string {
  return cutText(`${keyword} ${generalise(path)}`.trim(), MAX_CODE_LENGTH)
}

/** The path without the places in arrays. */
export function generalise (path: string): string {
  return path.replaceAll(/\/\d+(?=\/|$)/g, '/*')
}
