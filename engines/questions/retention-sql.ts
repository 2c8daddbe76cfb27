import type { ResolvedRange } from './calendar.ts'
import type { Retention } from './question.ts'
import { bucketSql, choiceSql, instantSql, rowsSql } from './question-sql.ts'

/** One row a period in which persons started and one in which they returned; the former itself has all of them. */
export function compileRetention (retention: Retention, projectId: number, range: ResolvedRange): string {
  const { start, returning, interval } = retention
  const from = instantSql(range.from)
  return `SELECT cohort, bucket, count() AS people
FROM
(
    SELECT person_id, minIf(timestamp, is_start) AS started, ${bucketSql('started', interval, range)} AS cohort,
        groupUniqArrayIf(if(timestamp < ${from}, '', ${bucketSql('timestamp', interval, range)}), is_return) AS buckets
    FROM
    (
        SELECT person_id, timestamp, ${choiceSql(start)} AS is_start, ${choiceSql(returning)} AND timestamp >= ${from} AS is_return
        FROM events_with_person
        -- Who started before the range is not new, so first starts are looked for in all events.
        WHERE ${rowsSql({ projectId, includeBots: retention.includeBots }, [start, returning])} AND timestamp < ${instantSql(range.to)} AND (is_start OR is_return)
    )
    GROUP BY person_id
    HAVING countIf(is_start) > 0 AND started >= ${from}
)
ARRAY JOIN arrayConcat([cohort], arrayFilter(later -> later > cohort, buckets)) AS bucket
GROUP BY cohort, bucket
ORDER BY cohort, bucket`
}
