/** The rules that ingest enforces. */
import { type ActiveVersion, createReadActive } from './active-definitions.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { type ActiveRule, ProjectRules } from '../../engines/rules/apply-rules.ts'
import { type CompiledRule, compileRule } from '../../engines/rules/compile-rule.ts'

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

/** @throws {DefinitionError} */
export function compileRules ({ secret, rules }: RuleDefinitions, projectId: number): KeyedRules {
  const key = { secret, projectId }
  const compiled = rules.map((rule) => ({ ...rule, compiled: compileRule(JSON.parse(rule.text), key) }))
  return { secret, rules: new ProjectRules(compiled) }
}

interface ActiveRow extends ActiveVersion {
  rule_id: number
  secret: Uint8Array
}

/** Returns a function that reads the active rules of all projects; see {@link createReadActive}. */
export function createReadActiveRules (sql: Sql, logger: Logger): () => Promise<ReadonlyMap<number, KeyedRules>> {
  return createReadActive<ActiveRow, CompiledRule, KeyedRules>({
    what: 'a rule',
    read: (known) => sql<ActiveRow[]>`
      SELECT r.project_id, r.id AS rule_id, r.name, v.version, v.id::text AS id, k.secret,
        CASE WHEN v.id = ANY (${known}::bigint[]) THEN NULL ELSE v.definition::text END AS text
      FROM event_rules AS r
      JOIN event_rule_versions AS v ON v.rule_id = r.id AND v.version = r.active_version
      CROSS JOIN rule_keys AS k
      ORDER BY r.project_id, r.position, r.id`,
    compile: (text, { project_id: projectId, secret }) => compileRule(JSON.parse(text), { secret, projectId }),
    toDefinitions: (versions) => ({
      secret: versions[0]!.secret,
      rules: new ProjectRules(versions.map(({ rule_id: id, name, version, text, compiled }) =>
        ({ id, name, version, text, compiled })))
    }),
    isSame: ({ rules: { rules } }, { rules: { rules: before } }) => rules.length === before.length &&
      rules.every(({ compiled, name, id }, index) => {
        const old = before[index]!
        return old.compiled === compiled && old.name === name && old.id === id
      })
  }, logger)
}
