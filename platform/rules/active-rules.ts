/** The rules that ingest enforces. */
import type { Logger } from '../logger.ts'
import type { Sql } from '../postgres/connect-postgres.ts'
import { type ActiveRule, ProjectRules } from './apply-rules.ts'
import { type CompiledRule, compileRule } from './compile-rule.ts'

/** What another thread needs to make the same set. */
export interface RuleDefinitions {
  secret: Uint8Array
  rules: Omit<ActiveRule, 'compiled'>[]
}

/** The rules of a project with the secret that they hash with. */
export interface KeyedRules {
  rules: ProjectRules
  secret: Uint8Array
}

export function definitionsOfRules ({ rules: { rules }, secret }: KeyedRules): RuleDefinitions {
  return { secret, rules: rules.map(({ id, name, version, text }) => ({ id, name, version, text })) }
}

/** @throws {RuleError} */
export function compileRules ({ secret, rules }: RuleDefinitions, projectId: number): KeyedRules {
  const key = { secret, projectId }
  const compiled = rules.map((rule) => ({ ...rule, compiled: compileRule(JSON.parse(rule.text), key) }))
  return { secret, rules: new ProjectRules(compiled) }
}

/** Reads the active rules of all projects; projects without any are not in the map. */
export type ReadActiveRules = () => Promise<ReadonlyMap<number, KeyedRules>>

interface ActiveRow {
  project_id: number
  rule_id: number
  name: string
  version: number
  /** Of the version, which never changes. */
  id: string
  /** Null when it was read before. */
  text: string | null
  secret: Uint8Array
}

/** A rule of a version that is in use. */
interface Known {
  text: string
  compiled: CompiledRule
}

/**
 * Reads what is active, and compiles what is new. One statement reads it, so that no set is half of one and half of
 * another. A project one of whose rules does not compile (a newer process has stored an action that this one does not
 * know) keeps the set that it had.
 */
export function createReadActiveRules (sql: Sql, logger: Logger): ReadActiveRules {
  let known = new Map<string, Known>()
  let sets: ReadonlyMap<number, KeyedRules> = new Map()

  return async function readActiveRules () {
    const rows = await sql<ActiveRow[]>`
      SELECT r.project_id, r.id AS rule_id, r.name, v.version, v.id::text AS id, k.secret,
        CASE WHEN v.id = ANY (${[...known.keys()]}::bigint[]) THEN NULL ELSE v.definition::text END AS text
      FROM event_rules AS r
      JOIN event_rule_versions AS v ON v.rule_id = r.id AND v.version = r.active_version
      CROSS JOIN rule_keys AS k
      ORDER BY r.project_id, r.position, r.id`
    const next = new Map<string, Known>()
    const read = new Map<number, KeyedRules>()
    for (const [projectId, ofProject] of Map.groupBy(rows, (row) => row.project_id)) {
      const before = sets.get(projectId)
      try {
        const rules = ofProject.map((row) => activate(row, known, next))
        read.set(projectId, keepUnchanged({ rules: new ProjectRules(rules), secret: ofProject[0]!.secret }, before))
      } catch (err) {
        logger.error({ err, projectId }, 'a rule does not compile; the project keeps the rules it had')
        if (before !== undefined) read.set(projectId, before)
      }
    }
    known = next
    sets = read
    return sets
  }
}

function activate (row: ActiveRow, known: ReadonlyMap<string, Known>, next: Map<string, Known>): ActiveRule {
  const { project_id: projectId, rule_id: id, name, version, secret } = row
  const { text, compiled } = known.get(row.id) ??
    { text: row.text!, compiled: compileRule(JSON.parse(row.text!), { secret, projectId }) }
  next.set(row.id, { text, compiled })
  return { id, name, version, text, compiled }
}

/** A set that did not change stays the same object, by which threads know that they have it. */
function keepUnchanged (set: KeyedRules, before: KeyedRules | undefined): KeyedRules {
  const { rules } = set.rules
  const isSame = before?.rules.rules.length === rules.length && rules.every(({ compiled, name, id }, index) => {
    const old = before.rules.rules[index]!
    return old.compiled === compiled && old.name === name && old.id === id
  })
  return isSame ? before : set
}
