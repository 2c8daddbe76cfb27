import { HttpError } from '../../platform/errors.ts'
import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { isUniqueViolation } from '../http/errors/classify-postgres-error.ts'
import { type SqlFragment } from '../http/pages/match-search.ts'
import { findPropertyDefinition } from './find-property-definition.ts'
import { type PropertyDefinition, type PropertyDefinitionChanges } from './property-definition.ts'

/**
 * Changes the given fields and no others, so that people who change different fields at once lose nothing.
 *
 * @throws {HttpError} 404; 400 `unique` when another definition has the new name; 400 when `property_type` and
 *   `is_numerical` contradict each other.
 */
export async function updatePropertyDefinition (
  sql: Sql, projectId: number, id: string, changes: PropertyDefinitionChanges
): Promise<PropertyDefinition> {
  refuseContradiction(changes)
  const assignments = [...assignFields(sql, changes), ...assignType(sql, changes)]
  if (assignments.length > 0) {
    const set = assignments.reduce((all, assignment) => sql`${all}, ${assignment}`)
    try {
      await sql`UPDATE property_definitions SET ${set} WHERE project_id = ${projectId} AND id = ${id}`
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      throw new HttpError(400, 'validation_error', 'unique', 'There is already a property definition with this name.',
        { attr: 'name', cause: error })
    }
  }
  return await findPropertyDefinition(sql, projectId, id)
}

function refuseContradiction ({ property_type: type, is_numerical: isNumerical }: PropertyDefinitionChanges): void {
  if (type === undefined || isNumerical === undefined || isNumerical === (type === 'Numeric')) return
  throw new HttpError(400, 'validation_error', 'invalid_input',
    'is_numerical must be true exactly when property_type is Numeric.', { attr: 'is_numerical' })
}

function assignFields (sql: Sql, { name, tags, query_usage_30_day: usage }: PropertyDefinitionChanges): SqlFragment[] {
  return [
    ...(name === undefined ? [] : [sql`name = ${name}`]),
    ...(tags === undefined ? [] : [sql`tags = ${[...new Set(tags)]}::text[]`]),
    ...(usage === undefined ? [] : [sql`query_usage_30_day = ${usage}`])
  ]
}

/** A type that a person chose is marked as such; null gives it back to inference. */
function assignType (sql: Sql, changes: PropertyDefinitionChanges): SqlFragment[] {
  const { property_type: type, is_numerical: isNumerical } = changes
  if (type !== undefined) return [sql`property_type = ${type}`, sql`property_type_is_manual = ${type !== null}`]
  if (isNumerical === undefined) return []
  if (isNumerical) return [sql`property_type = 'Numeric'`, sql`property_type_is_manual = true`]
  // The old value on the right: a type that is not Numeric is consistent already.
  return [
    sql`property_type_is_manual = property_type_is_manual OR property_type IS NOT DISTINCT FROM 'Numeric'`,
    sql`property_type = CASE WHEN property_type = 'Numeric' THEN 'String' ELSE property_type END`
  ]
}
