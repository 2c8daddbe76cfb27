/** Lifecycle and stickiness: in which periods of the range persons were active. */
import { invalidField } from '../errors.ts'
import { addPeriods, indexOfBucket, listBuckets, type ResolvedRange, startOfDay } from './calendar.ts'
import type { Activity } from './question.ts'
import { describePeriods, hasPeriod } from './retention-sql.ts'

export const LIFECYCLE_STATES = ['new', 'returning', 'resurrecting', 'dormant'] as const
export type LifecycleState = typeof LIFECYCLE_STATES[number]

/** One row a state and period of a lifecycle; one row a number of periods of a stickiness. */
export function compileActivity (question: Activity, projectId: number, range: ResolvedRange): string {
  return question.kind === 'lifecycle'
    ? `SELECT each.1 AS state, each.2 AS bucket, count() AS people
FROM (
${lifecycleSql(question, projectId, range)}
)
ARRAY JOIN states AS each GROUP BY state, bucket ORDER BY bucket, state`
    : `SELECT periods, count() AS people
FROM (
${stickinessSql(question, projectId, range)}
)
GROUP BY periods ORDER BY periods`
}

/** People in a state in a period, or active in a number of periods. */
export type ActivityCell = { start: string, state: LifecycleState } | { periods: number }

/** @throws {HttpError} 400 for a period that the question does not have. */
export function compileActivityPersons (
  question: Activity, cell: ActivityCell, { projectId, range }: { projectId: number, range: ResolvedRange }
): string {
  const buckets = listBuckets(range, question.interval, range)
  if ('periods' in cell) {
    if (cell.periods > buckets.length) throw invalidField('cell__periods', `The range has ${buckets.length} periods.`)
    return `SELECT person, NULL AS at, NULL AS value FROM (\n${stickinessSql(question, projectId, range)}\n)\nWHERE periods = ${cell.periods}`
  }
  const index = indexOfBucket(buckets, cell.start)
  return `SELECT person, NULL AS at, NULL AS value FROM (\n${lifecycleSql(question, projectId, range)}\n)
WHERE has(states, ('${cell.state}', ${index}))`
}

/** Of each person the states with the indexes of their periods, from 0. */
function lifecycleSql ({ activity, interval, includeBots }: Activity, projectId: number, range: ResolvedRange): string {
  // Bit 1 is the period before the range, which says who returns, and bit 0 all the time before that.
  const firstDay = addPeriods(range.firstDay, -1, interval)
  const longer = { ...range, firstDay, from: startOfDay(firstDay, range.timezone) }
  const asked = { interval, includeBots, start: activity, returning: activity, cohort: 'first' } as const
  const { periods, bitsSql, isKnownBefore } = describePeriods(asked, projectId, longer)
  const begun = periods.filter(({ from }) => from <= range.now).length
  const isActive = hasPeriod('active')
  const wasActive = 'bitAnd(bitShiftRight(active, number - 1), 1) != 0'
  const wasNever = `bitAnd(active, bitShiftLeft(toUInt128(1), number) - 1) = 0${isKnownBefore}`
  return `    SELECT person, starts AS active, arrayFilter(each -> each.1 != '', arrayMap(number -> (multiIf(
        ${isActive} AND number > 1 AND ${wasActive}, 'returning', ${isActive} AND ${wasNever}, 'new', ${isActive}, 'resurrecting',
        ${wasActive}, 'dormant', ''), number - 2), range(2, ${Math.max(2, begun + 1)}))) AS states
    FROM (
${bitsSql}
    )`
}

/** Of each person the number of periods in which they were active. */
function stickinessSql (question: Activity, projectId: number, range: ResolvedRange): string {
  const { activity, interval, includeBots } = question
  const asked = { interval, includeBots, start: activity, returning: activity, cohort: 'any' } as const
  const { periods, bitsSql } = describePeriods(asked, projectId, range)
  const numbers = `range(1, ${periods.length + 1})`
  return `    SELECT person, length(arrayFilter(number -> ${hasPeriod('starts')}, ${numbers})) AS periods
    FROM (
${bitsSql}
    )
    WHERE starts != 0`
}
