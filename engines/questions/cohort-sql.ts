import { type CohortNode, windowStart } from './cohort-definition.ts'
import { dateOrVersionSql } from './date-version-sql.ts'
import { choiceSql, conditionSql, instantSql, membersSql, mergesSql, PERSON, rowsSql } from './question-sql.ts'

interface Leaves {
  behaviors: Extract<CohortNode, { type: 'did' }>['behavior'][]
  conditions: Extract<CohortNode, { type: 'person' }>['condition'][]
  cohorts: number[]
}

/**
 * The query of the persons of a cohort, one row each, for tables that count duplicates once (`final`). A person is that
 * of the event as questions find them, merges followed, or has properties, or is on a list that the cohort names.
 *
 * Events of bots do not count. Where somebody without properties, who did nothing, is in the cohort, it has everybody
 * with an event.
 *
 * @param cohort  With the cohorts in it expanded: those that are left are lists.
 * @param asked.now  Unix milliseconds, at which its windows end.
 * @param asked.timezone  Of the project, in which dates without an offset are read.
 */
export function compileCohort (
  cohort: CohortNode, { projectId, now, timezone }: { projectId: number, now: number, timezone: string }
): string {
  const leaves: Leaves = { behaviors: [], conditions: [], cohorts: [] }
  const having = nodeSql(cohort, leaves)
  const { behaviors, conditions, cohorts } = leaves
  const columns = [
    ...behaviors.map((_, index) => `done_${index}`), ...conditions.map((_, index) => `meets_${index}`), ...cohorts.map((_, index) => `in_${index}`)
  ]
  /** A source of persons, with what it says of them; zero says nothing. */
  const select = (person: string, known: Record<string, string>, from: string): string =>
    `    SELECT ${person} AS person${columns.map((column) => `, toUInt64(${known[column] ?? 0}) AS ${column}`).join('')}\n    FROM ${from}`
  const events = behaviors.length > 0 || isMetByNobody(cohort) ? [eventsSql(cohort, leaves, { projectId, now })] : []
  const done = Object.fromEntries(behaviors.map((_, index) => [`done_${index}`, `counted_${index}`]))
  const meets = Object.fromEntries(conditions.map((condition, index) => {
    const sql = 'values' in condition ? conditionSql(condition) : dateOrVersionSql(condition, { now, timezone })
    return [`meets_${index}`, isMetByNothing(condition) ? `NOT (${sql})` : sql]
  }))
  const sources = [
    ...events.map((from) => select(PERSON, done, `(${from}) AS event ${mergesSql(projectId)}`)),
    ...conditions.length > 0 || isMetByNobody(cohort) ? [select('person_id', meets, `persons FINAL WHERE project_id = ${projectId}`)] : [],
    ...cohorts.map((id, index) => select('person_id', { [`in_${index}`]: '1' }, membersSql(id, projectId)))
  ]
  return `SELECT person FROM
(
${sources.join('\n    UNION ALL\n')}
)
GROUP BY person HAVING ${having} AND person != toUUID('00000000-0000-0000-0000-000000000000')`
}

/** Of each computed person, how often they did what counts. */
function eventsSql (
  cohort: CohortNode, { behaviors }: Leaves, { projectId, now }: { projectId: number, now: number }
): string {
  const until = `timestamp <= ${instantSql(now)}`
  const starts = behaviors.map(({ window }) => windowStart(window, now))
  const counts = behaviors.map(({ choice }, index) =>
    `, countIf(${choiceSql(choice, projectId)} AND timestamp >= ${instantSql(starts[index] ?? now)}) AS counted_${index}`)
  const rows = isMetByNobody(cohort)
    ? `project_id = ${projectId} AND NOT is_bot`
    : `${rowsSql({ projectId, includeBots: false }, behaviors.map(({ choice }) => choice))} AND timestamp >= ${instantSql(Math.min(...starts))}`
  return `SELECT event.person_id AS person_id${counts.join('')}
        FROM events AS event WHERE ${rows} AND ${until} GROUP BY event.person_id`
}

/** Whether a person of the sources is in the cohort; adds what the sources must say to `leaves`. */
function nodeSql (node: CohortNode, leaves: Leaves): string {
  switch (node.type) {
    case 'AND': case 'OR': return `(${node.values.map((each) => nodeSql(each, leaves)).join(` ${node.type} `)})`
    case 'NOT': return `NOT ${nodeSql(node.value, leaves)}`
    case 'did': {
      const index = leaves.behaviors.push(node.behavior) - 1
      return `(sum(done_${index}) ${SIGNS[node.behavior.operator]} ${node.behavior.times})`
    }
    case 'person': {
      const index = leaves.conditions.push(node.condition) - 1
      return `(max(meets_${index}) = ${isMetByNothing(node.condition) ? 0 : 1})`
    }
    case 'cohort': return `(max(in_${leaves.cohorts.push(node.id) - 1}) = 1)`
  }
}

const SIGNS = { gte: '>=', lte: '<=', exact: '=', gt: '>', lt: '<' } as const

function isMetByNothing ({ operator }: Extract<CohortNode, { type: 'person' }>['condition']): boolean {
  return /^(?:is_)?not/.test(operator)
}

/** Whether somebody is in the cohort who did nothing, has no properties and is on no list. */
function isMetByNobody (node: CohortNode): boolean {
  switch (node.type) {
    case 'AND': return node.values.every(isMetByNobody)
    case 'OR': return node.values.some(isMetByNobody)
    case 'NOT': return !isMetByNobody(node.value)
    case 'did': return { gte: node.behavior.times <= 0, lte: node.behavior.times >= 0, exact: node.behavior.times === 0, gt: false, lt: node.behavior.times > 0 }[node.behavior.operator]
    case 'person': return isMetByNothing(node.condition)
    case 'cohort': return false
  }
}

/** Whether copies of events that are not merged yet change nothing: nobody counts beyond one. */
export function takesCopies (node: CohortNode): boolean {
  switch (node.type) {
    case 'AND': case 'OR': return node.values.every(takesCopies)
    case 'NOT': return takesCopies(node.value)
    case 'did': return node.behavior.operator === 'gte' && node.behavior.times <= 1
    default: return true
  }
}
