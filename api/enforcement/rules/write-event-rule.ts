import type { Sql } from '../../../platform/postgres/connect-postgres.ts'
import type { CompiledRule } from '../../../engines/rules/compile-rule.ts'
import { type RuleDefinition, RuleError } from '../../../engines/rules/rule-definition.ts'
import { checkRule } from '../../../engines/rules/run-rule-tests.ts'
import {
  activateVersion, insertVersion, invalidField, lockDefinition, lockProject, readVersion, refuseOutdated,
  refuseRenamed, type StoredVersion
} from '../change-definitions.ts'
import { type DefinitionKey, findDefinition } from '../versioned-definitions.ts'
import { EVENT_RULES, type EventRule, type EventRuleChange, type NewEventRule } from './event-rule.ts'

/** Rules of a project: an ingest process holds those of all projects in memory. */
const MAX_RULES = 200

/** Between the positions of two rules, so that another one can be put between them. */
const POSITION_STEP = 10

/**
 * Creates a rule with its first version, whose number goes on from that of a deleted rule of the same name.
 *
 * @param userId  Null from the command line.
 * @throws {HttpError} 400 naming the invalid field in `attr`, levels joined by `__`.
 */
export async function createEventRule (
  sql: Sql, { projectId, userId }: { projectId: number, userId: number | null }, fields: NewEventRule
): Promise<EventRule> {
  const { name, condition, actions, tests, description = '', position } = fields
  if (name.trim() === '') throw invalidField('name', 'This field may not be blank.', 'blank')
  const definition = readDefinition({ condition, actions, tests })
  const id = await sql.begin(async (tx) => {
    await lockProject(tx, projectId)
    const [counted] = await tx<{ count: number, last: number }[]>`
      SELECT count(*)::integer AS count, COALESCE(max(position), 0) AS last FROM event_rules
      WHERE project_id = ${projectId} AND NOT deleted`
    if (counted!.count >= MAX_RULES) throw invalidField('name', `A project has at most ${MAX_RULES} rules.`)
    const at = position ?? Math.min(counted!.last + POSITION_STEP, 1_000_000)
    const [stored] = await tx<StoredVersion[]>`
      INSERT INTO event_rules (project_id, name, description, position, created_by)
      VALUES (${projectId}, ${name}, ${description}, ${at}, ${userId})
      ON CONFLICT (project_id, name) DO UPDATE SET description = EXCLUDED.description, position = EXCLUDED.position,
        created_by = EXCLUDED.created_by, deleted = false, version = event_rules.version + 1,
        first_version = event_rules.version + 1, created_at = now(), updated_at = now()
      WHERE event_rules.deleted
      RETURNING id, version, first_version`
    if (stored === undefined) throw invalidField('name', 'There is already a rule of this name.', 'unique')
    await insertVersion(tx, EVENT_RULES, { ...stored, content: definition, userId })
    await activateVersion(tx, EVENT_RULES, stored, { active: fields.active_version, compile: compileDraftRule })
    return stored.id
  })
  return await findDefinition(sql, EVENT_RULES, { projectId, id })
}

/**
 * Changes the given fields; another condition, action or test makes a version, which is not active by that.
 *
 * @throws {HttpError} 404; 400 naming the invalid field in `attr`; 409 when there is a newer version than the change is
 *   based on.
 */
export async function updateEventRule (
  sql: Sql, key: DefinitionKey, { fields, userId }: { fields: EventRuleChange, userId: number | null }
): Promise<EventRule> {
  const { description, position } = fields
  const changes = ['condition', 'actions', 'tests'].some((name) => fields[name as keyof EventRuleChange] !== undefined)
  await sql.begin(async (tx) => {
    const stored = await lockDefinition(tx, EVENT_RULES, key)
    refuseRenamed(EVENT_RULES, stored, fields.name)
    await refuseOutdated(tx, EVENT_RULES, stored, fields)
    let { version } = stored
    if (changes) {
      const newest = await readVersion(tx, EVENT_RULES, stored) as RuleDefinition
      const { condition = newest.condition, actions = newest.actions, tests = newest.tests } = fields
      const definition = readDefinition({ condition, actions, tests })
      if (JSON.stringify(definition) !== JSON.stringify(readDefinition(newest))) {
        version++
        await insertVersion(tx, EVENT_RULES, { id: stored.id, version, content: definition, userId })
      }
    }
    await tx`UPDATE event_rules SET version = ${version}, description = COALESCE(${description ?? null}, description),
      position = COALESCE(${position ?? null}, position), updated_at = now() WHERE id = ${stored.id}`
    const chosen = { active: fields.active_version, compile: compileDraftRule }
    await activateVersion(tx, EVENT_RULES, { ...stored, version }, chosen)
  })
  return await findDefinition(sql, EVENT_RULES, key)
}

/**
 * Compiles a rule of a request, and tries its tests.
 *
 * @throws {HttpError} 400 naming the place in `attr`, such as `actions__0__rate`.
 */
export function compileDraftRule ({ condition, actions, tests }: Partial<RuleDefinition>): CompiledRule {
  try {
    return checkRule({ condition: condition ?? null, actions, tests: tests ?? [] })
  } catch (error) {
    if (!(error instanceof RuleError)) throw error
    throw invalidField(error.path.join('__') || 'actions', error.message, 'invalid_rule')
  }
}

function readDefinition ({ condition, actions, tests }: RuleDefinition): Required<RuleDefinition> {
  const definition = { condition: condition ?? null, actions, tests: tests ?? [] }
  compileDraftRule(definition)
  return definition
}
