import { HttpError } from '../../platform/errors.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import type { CompiledRule } from '../../platform/rules/compile-rule.ts'
import { type RuleDefinition, RuleError } from '../../platform/rules/rule-definition.ts'
import { checkRule } from '../../platform/rules/run-rule-tests.ts'
import { notFound } from '../http/errors.ts'
import type { EventRule, EventRuleFields, NewEventRule } from './event-rule.ts'
import { findEventRule, type RuleKey } from './read-event-rules.ts'

/** Rules of a project: an ingest process holds those of all projects in memory. */
const MAX_RULES = 200

/** Between the positions of two rules, so that another one can be put between them. */
const POSITION_STEP = 10

interface Stored {
  id: number
  version: number
}

/**
 * Creates a rule with its first version. One of a name whose rule was deleted counts on from there.
 *
 * @param userId  Null from the command line.
 * @throws {HttpError} 400 naming the invalid field in `attr`, levels joined by `__`.
 */
export async function createEventRule (
  sql: Sql, { projectId, userId }: { projectId: number, userId: number | null }, fields: NewEventRule
): Promise<EventRule> {
  const { name, condition, actions, tests, description = '', position } = fields
  if (name.trim() === '') throw invalid('name', 'This field may not be blank.', 'blank')
  const definition = readDefinition({ condition, actions, tests })
  const id = await sql.begin(async (tx) => {
    await lockProject(tx, projectId)
    const [counted] = await tx<{ count: number, last: number }[]>`
      SELECT count(*)::integer AS count, COALESCE(max(position), 0) AS last FROM event_rules
      WHERE project_id = ${projectId} AND NOT deleted`
    if (counted!.count >= MAX_RULES) throw invalid('name', `A project has at most ${MAX_RULES} rules.`)
    const at = position ?? Math.min(counted!.last + POSITION_STEP, 1_000_000)
    const [stored] = await tx<Stored[]>`
      INSERT INTO event_rules (project_id, name, description, position, created_by)
      VALUES (${projectId}, ${name}, ${description}, ${at}, ${userId})
      ON CONFLICT (project_id, name) DO UPDATE SET description = EXCLUDED.description, position = EXCLUDED.position,
        created_by = EXCLUDED.created_by, deleted = false, version = event_rules.version + 1,
        created_at = now(), updated_at = now()
      WHERE event_rules.deleted
      RETURNING id, version`
    if (stored === undefined) throw invalid('name', 'There is already a rule of this name.', 'unique')
    await insertVersion(tx, stored, { definition, userId })
    await activate(tx, stored, fields.active_version)
    return stored.id
  })
  return await findEventRule(sql, { projectId, id })
}

/**
 * Changes the given fields; another condition, action or test makes a version, which is not active by that.
 *
 * @throws {HttpError} 404; 400 naming the invalid field in `attr`.
 */
export async function updateEventRule (
  sql: Sql, key: RuleKey, { fields, userId }: { fields: EventRuleFields, userId: number | null }
): Promise<EventRule> {
  const { description, position } = fields
  const changes = ['condition', 'actions', 'tests'].some((name) => fields[name as keyof EventRuleFields] !== undefined)
  await sql.begin(async (tx) => {
    const stored = await lockRule(tx, key)
    let { version } = stored
    if (changes) {
      const newest = await readVersion(tx, stored)
      const { condition = newest.condition, actions = newest.actions, tests = newest.tests } = fields
      const definition = readDefinition({ condition, actions, tests })
      if (JSON.stringify(definition) !== JSON.stringify(readDefinition(newest))) {
        version++
        await insertVersion(tx, { id: stored.id, version }, { definition, userId })
      }
    }
    await tx`UPDATE event_rules SET version = ${version}, description = COALESCE(${description ?? null}, description),
      position = COALESCE(${position ?? null}, position), updated_at = now() WHERE id = ${stored.id}`
    await activate(tx, { id: stored.id, version }, fields.active_version)
  })
  return await findEventRule(sql, key)
}

/** @throws {HttpError} 404. */
export async function deleteEventRule (sql: Sql, key: RuleKey): Promise<void> {
  await sql.begin(async (tx) => {
    const { id } = await lockRule(tx, key)
    await tx`UPDATE event_rules SET deleted = true, active_version = NULL, updated_at = now() WHERE id = ${id}`
  })
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
    throw invalid(error.path.join('__') || 'actions', error.message, 'invalid_rule')
  }
}

function readDefinition ({ condition, actions, tests }: RuleDefinition): Required<RuleDefinition> {
  const definition = { condition: condition ?? null, actions, tests: tests ?? [] }
  compileDraftRule(definition)
  return definition
}

async function lockProject (tx: TransactionSql, projectId: number): Promise<void> {
  const rows = await tx`SELECT id FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`
  if (rows.length === 0) throw notFound()
}

async function lockRule (tx: TransactionSql, key: RuleKey): Promise<Stored> {
  const which = 'id' in key ? tx`id = ${key.id}` : tx`name = ${key.name}`
  const [stored] = await tx<Stored[]>`
    SELECT id, version FROM event_rules WHERE project_id = ${key.projectId} AND ${which} AND NOT deleted FOR UPDATE`
  if (stored === undefined) throw notFound()
  return stored
}

async function readVersion (tx: TransactionSql, { id, version }: Stored): Promise<RuleDefinition> {
  const [found] = await tx<{ definition: RuleDefinition }[]>`
    SELECT definition FROM event_rule_versions WHERE rule_id = ${id} AND version = ${version}`
  return found!.definition
}

async function insertVersion (
  tx: TransactionSql, { id, version }: Stored,
  { definition, userId }: { definition: RuleDefinition, userId: number | null }
): Promise<void> {
  await tx`INSERT INTO event_rule_versions (rule_id, version, definition, created_by)
    VALUES (${id}, ${version}, ${tx.json(definition)}, ${userId})`
}

/** @param active  The version to enforce; null: none; undefined: as it is. */
async function activate (
  tx: TransactionSql, { id, version }: Stored, active: number | null | undefined
): Promise<void> {
  if (active === undefined) return
  if (active !== null) {
    if (active > version) throw invalid('active_version', `The newest version is ${version}.`)
    // A version of a release before may have what this one no longer takes.
    compileDraftRule(await readVersion(tx, { id, version: active }))
  }
  await tx`UPDATE event_rules SET active_version = ${active}, updated_at = now() WHERE id = ${id}`
}

function invalid (attr: string, detail: string, code = 'invalid'): HttpError {
  return new HttpError(400, 'validation_error', code, detail, { attr })
}
