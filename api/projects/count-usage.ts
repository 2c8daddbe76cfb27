/** How many events a project has sent, by the books in ClickHouse. */
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { WARNINGS_TABLE } from '../../schema/wire/ingestion-warnings.ts'
import { LEDGER_TABLE, ledgerTotals } from '../../schema/wire/ledger.ts'
import type { UsageDay } from './project-quota.ts'

const MAX_SECONDS = 30

const DAY_MS = 86_400_000

/**
 * The usage of a project by day, newest first, days without events included.
 *
 * @param span  Begins of the first and the last day, epoch milliseconds.
 */
export async function listUsage (
  clickhouse: ClickHouse, project: number, span: { first: number, last: number }
): Promise<UsageDay[]> {
  const params = { projects: [project], from: span.first / 1000, to: (span.last + DAY_MS) / 1000 }
  const [books, drops] = await Promise.all([
    queryRows<Record<'day' | 'events' | 'duplicates' | 'dead', string>>(clickhouse, `
      SELECT toString(toDate(minute)) AS day, greatest(sum(toInt64(a + r) - toInt64(d + l)), 0) AS events,
        sum(d) AS duplicates, sum(l) AS dead
      FROM (${ledgerTotals(LEDGER_TABLE)})
      GROUP BY day SETTINGS final = 0, max_execution_time = ${MAX_SECONDS}`, params),
    queryRows<Record<'day' | 'dropped' | 'sampled' | 'refused', string>>(clickhouse, `
      SELECT toString(toDate(minute)) AS day, sumIf(total, reason_effect = 'dropped') AS dropped,
        sumIf(total, reason = 'quota_sampled') AS sampled,
        sumIf(total, reason IN ('rate_limited', 'quota_exceeded')) AS refused
      FROM (
        SELECT minute, reason, source, any(effect) AS reason_effect, max(count) AS total
        FROM ${WARNINGS_TABLE}
        WHERE project_id IN {projects: Array(UInt32)}
          AND minute >= toDateTime({from: UInt32}) AND minute < toDateTime({to: UInt32})
        GROUP BY minute, reason, source
      )
      GROUP BY day SETTINGS final = 0, max_execution_time = ${MAX_SECONDS}`, params)
  ])
  const [booksOf, dropsOf] = [new Map(books.map((row) => [row.day, row])), new Map(drops.map((row) => [row.day, row]))]
  const days: UsageDay[] = []
  for (let begin = span.last; begin >= span.first; begin -= DAY_MS) {
    const day = new Date(begin).toISOString().slice(0, 10)
    const [book, drop] = [booksOf.get(day), dropsOf.get(day)]
    days.push({
      day,
      events: Number(book?.events ?? 0),
      duplicates: Number(book?.duplicates ?? 0),
      dead_lettered: Number(book?.dead ?? 0),
      dropped: Number(drop?.dropped ?? 0),
      quota_sampled: Number(drop?.sampled ?? 0),
      refused_requests: Number(drop?.refused ?? 0)
    })
  }
  return days
}

/** Start of the day of a moment, UTC; epoch milliseconds. */
export function dayOf (epochMs: number): number {
  return epochMs - epochMs % DAY_MS
}
