/** The step that holds events against the schemas of their project. */
import { stringifyJson } from '../../http-body/stringify-json.ts'
import type { ActiveSchema } from '../../platform/event-schemas/active-schemas.ts'
import type { SchemaFailure } from '../../platform/event-schemas/evaluation.ts'
import { cutText, REPLACEMENT } from '../../platform/storable-text.ts'
import type { NormalisedEvent } from '../normalise/normalise-event.ts'

/** Characters of a value in a message about it. */
const MAX_VALUE_LENGTH = 200

/** Of the path and keyword of a failure: what a filter of dead letters takes. */
const MAX_CODE_LENGTH = 100

/**
 * Checks an event against the active schema of its name, and marks its row with the version.
 *
 * @returns null when its properties meet the schema.
 */
export function checkSchema (
  { check, version }: ActiveSchema, { row, properties }: NormalisedEvent
): SchemaFailure | null {
  // Lone surrogates are stored as this character: then what is stored is checked, as a later check of the table does.
  const failure = row.properties.includes(REPLACEMENT)
    ? check(JSON.parse(row.properties) as Record<string, unknown>, 'stored')
    : check(properties, 'sent')
  row.schemaVersion = failure === null ? version : -version
  return failure
}

/** Says what is wrong, for people: `/plan enum "gold"`. */
export function describeSchemaFailure ({ path, keyword, value }: SchemaFailure): string {
  const text = value === undefined ? '' : ` ${cutText(stringifyJson(value), MAX_VALUE_LENGTH)}`
  return `${path === '' ? '/' : path} ${keyword}${text}`
}

/** The same for all failures of a kind, to group them by: without the value, and without the places in arrays. */
export function codeOfSchemaFailure ({ path, keyword }: SchemaFailure): string {
  return cutText(`${keyword} ${path.replaceAll(/\/\d+(?=\/|$)/g, '/*')}`.trim(), MAX_CODE_LENGTH)
}
