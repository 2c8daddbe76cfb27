/** Reads stored events for the check of a rule, newest day first. */
import { quoteString } from '../../../schema/clickhouse-sql.ts'
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { RuleCheckQuery } from './check-stored-rules.ts'

const DAY_MS = 86_400_000

/** Names of a project that are counted at most. */
const MAX_NAMES = 50_000

/** Characters of names that are asked for by name; with more, events of all names are read. */
const MAX_NAMES_LENGTH = 50_000

/** What rules see of a stored event, with its SDK. */
export interface RuledRow {
  uuid: string
  event: string
  distinctId: string
  /** Empty: it was not stored. */
  ip: string
  /** Epoch milliseconds. */
  receivedAt: number
  lib: string
  libVersion: string
  /** JSON. */
  properties: string
}

type Head = [
  uuid: string, event: string, distinctId: string, ip: string, receivedAt: string, lib: string, libVersion: string
]

const FROM = `FROM events
  WHERE project_id = {project: UInt32}
    AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})`

/** The JSON of the properties comes as it is: within other JSON it would be escaped, which takes as long again. */
const LINE = `concat(
  toJSONString([toString(uuid), event, distinct_id, ip, toString(toUnixTimestamp64Milli(received_at)), lib, lib_version]),
  '\\t', translate(properties, '\\n', ' '))`

/** @param options.mayPass  Whether the rule can do something with events of a name; others are left out. */
export function createEventReader (
  clickhouse: ClickHouse, { projectId: project, days, now }: RuleCheckQuery,
  { mayPass, signal }: { mayPass: (event: string) => boolean, signal: AbortSignal | undefined }
) {
  /** SQL for the names that are asked for; null: SQL does not say it. */
  let ofNames: string | null = null

  return { countEvents, readDay }

  /** Counts the events, and the days until the oldest one. To be called first. */
  async function countEvents (): Promise<{ events: number, days: number }> {
    const rows = await queryRows<{ event: string, events: string, oldest: string }>(clickhouse, `
      SELECT event, toString(count()) AS events, toString(min(toUnixTimestamp64Milli(timestamp))) AS oldest
      ${FROM} GROUP BY event ORDER BY count() DESC LIMIT ${MAX_NAMES + 1}`, { project, from: now - days * DAY_MS, to: now + DAY_MS })
    const asked = rows.filter(({ event }) => mayPass(event))
    const areAllKnown = rows.length <= MAX_NAMES
    ofNames = areAllKnown ? conditionOf(asked.map(({ event }) => event), rows.length) : null
    const oldest = asked.reduce((least, each) => Math.min(least, Number(each.oldest)), now)
    return {
      events: asked.reduce((sum, { events }) => sum + Number(events), 0),
      days: !areAllKnown ? days : asked.length === 0 ? 0 : Math.min(days, Math.floor((now - oldest) / DAY_MS) + 1)
    }
  }

  /** The events of one day; day 0 is the last 24 hours, with what came from clocks that are ahead. */
  async function * readDay (day: number, limit: number): AsyncGenerator<RuledRow[]> {
    const result = await clickhouse.query({
      query: `SELECT ${LINE} ${FROM} ${ofNames === null ? '' : `${ofNames} LIMIT {limit: UInt32}`}`,
      query_params: {
        project,
        limit,
        from: now - (day + 1) * DAY_MS,
        to: day === 0 ? now + DAY_MS : now - day * DAY_MS
      },
      format: 'TabSeparatedRaw',
      clickhouse_settings: { wait_end_of_query: 0 },
      ...signal && { abort_signal: signal }
    })
    let left = limit
    for await (const lines of result.stream()) {
      const rows = lines.map(({ text }) => readLine(text)).filter(({ event }) => ofNames !== null || mayPass(event))
      yield rows.slice(0, left)
      left -= rows.length
      // Leaving the loop ends the query.
      if (left <= 0) return
    }
  }
}

/** Nothing when all names are asked for; null when they are too many. */
function conditionOf (asked: readonly string[], known: number): string | null {
  if (asked.length === known) return ''
  const names = asked.map(quoteString).join(', ')
  return names.length > MAX_NAMES_LENGTH ? null : `AND event IN (${names})`
}

function readLine (text: string): RuledRow {
  const end = text.indexOf('\t')
  const [uuid, event, distinctId, ip, receivedAt, lib, libVersion] = JSON.parse(text.slice(0, end)) as Head
  const properties = text.slice(end + 1)
  return { uuid, event, distinctId, ip, receivedAt: Number(receivedAt), lib, libVersion, properties }
}
