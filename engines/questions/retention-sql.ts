import { invalidField } from '../errors.ts'
import { quoteString } from 'chdb-server/sql-lexer'
import { indexOfBucket, listBuckets, type ResolvedRange } from './calendar.ts'
import type { Retention } from './question.ts'
import { choiceSql, hasPersonConditions, instantSql, mergesSql, PERSON, rowsSql } from './question-sql.ts'

/** One row a period in which persons started and one in which they returned; the former itself has all of them. */
export function compileRetention (retention: Retention, projectId: number, range: ResolvedRange): string {
  const { periods, startOf, startedSql, personsSql } = describePeriods(retention, projectId, range)
  return `SELECT ${startOf('started')} AS cohort, ${startOf('later')} AS bucket, count() AS people
FROM
(
    SELECT arrayJoin(${startedSql}) AS started, returns
    FROM (
${personsSql}
    )
)
ARRAY JOIN arrayFilter(number -> number = started OR number > started AND ${cameBack(retention, 'number')}, range(1, ${periods.length + 1})) AS later
GROUP BY cohort, bucket ORDER BY cohort, bucket`
}

/** People who started in the period of `start` and returned `returned` periods later; 0: everybody who started. */
export interface RetentionCell { start: string, returned: number }

/** @throws {HttpError} 400 for a period that the question does not have. */
export function compileRetentionPersons (
  retention: Retention, { start, returned }: RetentionCell,
  { projectId, range }: { projectId: number, range: ResolvedRange }
): string {
  const { periods, startedSql, personsSql } = describePeriods(retention, projectId, range)
  const started = indexOfBucket(periods, start) + 1
  if (started + returned > periods.length) throw invalidField('cell__returned', `The range ends ${periods.length - started} periods later.`)
  return `SELECT person, NULL AS at, NULL AS value
FROM (
${personsSql}
)
WHERE has(${startedSql}, ${started})${returned === 0 ? '' : ` AND ${cameBack(retention, String(started + returned))}`}`
}

/** Whether somebody returned in a period, or also later. */
function cameBack ({ returns }: Retention, period: string): string {
  return returns === 'on' ? `bitAnd(bitShiftRight(returns, ${period}), 1) != 0` : `bitShiftRight(returns, ${period}) != 0`
}

/** bitTest takes at most 64 bits. */
export const hasPeriod = (bits: string): string => `bitAnd(bitShiftRight(${bits}, number), 1) != 0`

/**
 * The periods of a retention, and the SQL of its persons: in which of them each started and returned, a bit a period;
 * `bitsSql` of all persons who did either, `personsSql` of those who count.
 */
export function describePeriods (
  retention: Pick<Retention, 'start' | 'returning' | 'interval' | 'cohort' | 'includeBots'>, projectId: number, range: ResolvedRange
) {
  const { start, returning, interval, cohort } = retention
  const isFirst = cohort === 'first'
  const isInRange = `AND timestamp >= ${instantSql(range.from)}`
  const periods = listBuckets(range, interval, range)
  const first = `toDate('${periods[0]?.start ?? range.firstDay}')`
  const day = `toDate(timestamp, ${quoteString(range.timezone)})`
  const number = { day: `${day} - ${first} + 1`, week: `intDiv(${day} - ${first} + 7, 7)`, month: `dateDiff('month', ${first}, ${day}) + 1` }[interval]
  const startOf = (period: string): string => `toString(${first} + INTERVAL ${period} - 1 ${interval})`
  const numbers = `range(1, ${periods.length + 1})`
  // Of others than these, nothing is known of before.
  const isKnownBefore = !isFirst || range.keptFrom === -Infinity
    ? ''
    : ` AND person NOT IN (SELECT person_id FROM persons WHERE project_id = ${projectId} AND created_at < ${instantSql(range.keptFrom)})`
  const startedSql = isFirst ? `[arrayFirst(number -> ${hasPeriod('starts')}, ${numbers})]` : `arrayFilter(number -> ${hasPeriod('starts')}, ${numbers})`
  const bitsSql = `        SELECT ${PERSON} AS person, groupBitOr(starts) AS starts, groupBitOr(returns) AS returns
        FROM
        (
            -- A bit a period: bit 1 is the first of the range, and bit 0 all the time before.
            WITH bitShiftLeft(toUInt${periods.length < 64 ? 64 : 128}(1), greatest(0, ${number})) AS period,
                ${choiceSql(start, projectId, range)}${isFirst ? '' : ` ${isInRange}`} AS is_start, ${choiceSql(returning, projectId, range)} ${isInRange} AS is_return
            SELECT event.person_id AS person_id, groupBitOr(if(is_start, period, 0)) AS starts, groupBitOr(if(is_return, period, 0)) AS returns
            FROM events AS event ${hasPersonConditions([start, returning]) ? mergesSql(projectId) : ''}
            WHERE ${rowsSql({ projectId, includeBots: retention.includeBots, range }, [start, returning])} ${
              isFirst ? '' : `${isInRange} `}AND timestamp < ${instantSql(range.to)} AND (is_start OR is_return)
            GROUP BY event.person_id
        ) AS event ${mergesSql(projectId)}
        GROUP BY person`
  // Who started before the range is not new, so first starts are looked for in all events.
  const personsSql = `${bitsSql} HAVING starts != 0 AND bitAnd(starts, 1) = 0${isKnownBefore}`
  return { periods, startOf, startedSql, bitsSql, personsSql, isKnownBefore }
}
