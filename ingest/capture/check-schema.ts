/** The step that holds events against the schemas of their project. */
import type { ActiveSchema } from '../../platform/directory/active-schemas.ts'
import type { SchemaFailure } from '../../engines/json-schema/evaluation.ts'
import { REPLACEMENT } from '../../engines/body/storable-text.ts'
import type { NormalisedEvent } from '../normalise/normalise-event.ts'

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
