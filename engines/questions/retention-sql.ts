import type { ResolvedRange } from './calendar.ts'
import type { Retention } from './question.ts'
import { bucketSql, choiceSql, instantSql, rowsSql } from './question-sql.ts'

/** One row a period in which persons started and one in which they returned; the former itself has all of them. */
export function compileRetention (retention: Retention, projectId: number, range: ResolvedRange): string {
  const { start, returning, interval, cohort } = retention
  const from = instantSql(range.from)
  const isFirst = cohort === 'first'
  const isInRange = `AND timestamp >= ${from}`
  const bucket = `if(timestamp < ${from}, '', ${bucketSql('timestamp', interval, range)})`
  return `SELECT cohort, bucket, count() AS people
FROM
(
    SELECT person_id, ${isFirst ? `minIf(timestamp, is_start) AS started, ${bucketSql('started', interval, range)}` : `arrayJoin(groupUniqArrayIf(${bucket}, is_start))`} AS cohort,
        groupUniqArrayIf(${bucket}, is_return) AS buckets
    FROM
    (
        SELECT person_id, timestamp, ${choiceSql(start)}${isFirst ? '' : ` ${isInRange}`} AS is_start, ${choiceSql(returning)} ${isInRange} AS is_return
        FROM events_with_person
        WHERE ${rowsSql({ projectId, includeBots: retention.includeBots }, [start, returning])} ${
          isFirst ? '' : `${isInRange} `}AND timestamp < ${instantSql(range.to)} AND (is_start OR is_return)
    )
    GROUP BY person_id${isFirst
? `
    -- Who started before the range is not new, so first starts are looked for in all events.
    HAVING countIf(is_start) > 0 AND started >= ${from}`
: ''}
)
ARRAY JOIN arrayConcat([cohort], arrayFilter(later -> later > cohort, buckets)) AS bucket
GROUP BY cohort, bucket
ORDER BY cohort, bucket`
}
