/** Schemas and rules for the odd events of `fuzz-events.ts`: each asks something that part of them meet. */
import { compileDefinitions, type SchemaMode } from '../../platform/directory/active-schemas.ts'
import { compileRules } from '../../platform/directory/active-rules.ts'
import type { Project } from '../../platform/directory/read-keys.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'

const VALUES = {
  properties: {
    a: { type: ['string', 'number', 'boolean', 'null'], maxLength: 100 },
    $browser: { not: { type: 'object' } },
    created_at: { anyOf: [{ type: 'number', minimum: 0 }, { format: 'date' }, { type: 'array', items: { type: 'number' } }] },
    constructor: { type: ['string', 'null'] },
    $set: { additionalProperties: { pattern: '^[a-z]*$', maxItems: 2 } }
  },
  patternProperties: { '^\\d+$': { type: 'string' }, 'k{3}': false }
}

const NAMES = { maxProperties: 8, required: ['n'], dependentRequired: { $group_type: ['$group_key'] }, properties: { toString: false } }

const SCHEMAS: readonly { event: string, mode: SchemaMode, schema: object }[] = [
  { event: '$pageview', mode: 'observe', schema: VALUES },
  { event: 'order paid', mode: 'quarantine', schema: VALUES },
  { event: '$identify', mode: 'quarantine', schema: NAMES },
  { event: '\ufffd', mode: 'quarantine', schema: VALUES },
  { event: '$exception', mode: 'reject', schema: VALUES },
  { event: 'ü'.repeat(200), mode: 'reject', schema: NAMES },
  { event: 'nul\ufffdname', mode: 'observe', schema: NAMES }
]

const event = (...names: string[]): object => ({ type: 'event', value: names })
const property = (key: string, operator: string, value?: unknown): object =>
  ({ type: 'property', key, operator, ...value !== undefined && { value } })

const RULES: readonly object[] = [
  { condition: { type: 'AND', values: [event('$groupidentify', '$$plugin_metrics', '$identify'), property('a', 'is_set')] }, actions: [{ type: 'drop' }] },
  { condition: { type: 'AND', values: [event('$pageview'), property('$browser', 'not_regex', '^[a-z]+$')] }, actions: [{ type: 'sample', rate: 0.5 }] },
  { condition: property('created_at', 'gt', '0'), actions: [{ type: 'hash_property', property: '$current_url' }, { type: 'truncate_ip' }] },
  { condition: property('17', 'icontains', '0'), actions: [{ type: 'remove_property', property: 'a' }, { type: 'remove_property', property: 'constructor' }] },
  {
    condition: { type: 'AND', values: [{ type: 'ip', value: '127.0.0.0/8' }, property('utm_source', 'is_set')] },
    actions: [{ type: 'set_property', property: '$browser', value: ['of a rule', { n: null }] }]
  }
]

/** Project 1 as ingest has it when it has read what `storeFuzzContract` stores. */
export function compileFuzzProject (): Project {
  const rules = RULES.map((rule, id) => ({ id, name: `rule ${id}`, version: 1, text: JSON.stringify(rule) }))
  return {
    id: 1,
    anonymizeIps: false,
    rules: compileRules({ secret: new Uint8Array(32), rules }, 1),
    schemas: compileDefinitions(SCHEMAS.map(({ event, mode, schema }, id) =>
      ({ id, event, mode, version: 1, text: JSON.stringify(schema) })))
  }
}

/** Stores and activates them for project 1. */
export async function storeFuzzContract (sql: Sql): Promise<void> {
  await sql.begin(async (tx) => {
    for (const { event, mode, schema } of SCHEMAS) {
      const [row] = await tx<{ id: number }[]>`INSERT INTO event_schemas (project_id, event, mode) VALUES (1, ${event}, ${mode}) RETURNING id`
      await tx`INSERT INTO event_schema_versions (schema_id, version, schema) VALUES (${row!.id}, 1, ${tx.json(schema)})`
      await tx`UPDATE event_schemas SET active_version = 1 WHERE id = ${row!.id}`
    }
    for (const [position, rule] of RULES.entries()) {
      const [row] = await tx<{ id: number }[]>`INSERT INTO event_rules (project_id, name, position) VALUES (1, ${`rule ${position}`}, ${position}) RETURNING id`
      await tx`INSERT INTO event_rule_versions (rule_id, version, definition) VALUES (${row!.id}, 1, ${tx.json(rule)})`
      await tx`UPDATE event_rules SET active_version = 1 WHERE id = ${row!.id}`
    }
  })
}
