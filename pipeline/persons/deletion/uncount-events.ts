/** Takes events that are removed out of the tables that count them. */
import { onEachShard, PAST_USER_VIEWS, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { conditionsOf, type EventRemoval, type RemovalDeps, sourceOf } from './event-removals.ts'

/** A count of its own below 0, as the sums of the tables wrap; times that change no earliest and no latest one. */
const MINUS = (count: string): string => `toString(toUInt64(-toInt64(${count})))`
const TIMES = '\'1970-01-01 00:00:00.000\' AS last_seen, \'2299-12-31 23:59:59.999\' AS first_seen, now64(3) AS last_inserted'

/** Tables of counts, and what their views (`schema/clickhouse/`) made of such events. */
const COUNTS: Readonly<Record<string, (events: string) => string>> = {
  event_volumes_by_day: (events) => `
    SELECT project_id, event, toDate(timestamp) AS day, ${MINUS('count()')} AS volume, ${TIMES}
    FROM ${events} GROUP BY project_id, event, day SETTINGS final = 0`,
  event_property_counts: (events) => `
    SELECT
      project_id, event,
      transform(substring(entry, 1, 1), ['e', 'p', 'g'], ['event', 'person', 'group'], 'event') AS kind,
      if(substring(entry, 1, 1) = 'g', splitByChar('\\x01', substring(entry, 3))[1], '') AS group_type,
      if(substring(entry, 1, 1) = 'g', splitByChar('\\x01', substring(entry, 3))[2], substring(entry, 3)) AS property,
      transform(substring(entry, 2, 1), ['S', 'N', 'B', 'D'], ['String', 'Numeric', 'Boolean', 'DateTime'], 'none') AS type,
      ${MINUS('sum(rows)')} AS count, ${TIMES}
    FROM (SELECT project_id, event, property_types, count() AS rows FROM ${events} AND property_types != '' GROUP BY ALL)
    ARRAY JOIN splitByChar('\\0', toString(property_types)) AS entry
    GROUP BY project_id, event, kind, group_type, property, type SETTINGS final = 0`
}

/**
 * Counts the events of a removal no more. To be called before any of them is removed. Safe to repeat, also when some
 * are: the tokens of the inserts are those of the first time.
 */
export async function uncountEvents (deps: RemovalDeps, removal: EventRemoval): Promise<void> {
  const { clickhouse, cluster = '' } = deps
  for (const [index, { where, params }] of conditionsOf(removal).entries()) {
    for (const [table, read] of Object.entries(COUNTS)) {
      const query = read(`${onEachShard(cluster, 'events')} WHERE ${where}`)
      const values = await queryRows<Record<string, unknown>>(clickhouse, query, params)
      if (values.length === 0) continue
      const settings = { async_insert: 0 as const, insert_deduplication_token: `${sourceOf(removal)}${index}`, ...PAST_USER_VIEWS }
      await clickhouse.insert({ table, values, format: 'JSONEachRow', clickhouse_settings: settings })
    }
  }
}
