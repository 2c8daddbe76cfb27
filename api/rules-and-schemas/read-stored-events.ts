/** Reads stored events for a look back, newest day first. */
import { quoteString } from 'chdb-server/sql-lexer'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'

const DAY_MS = 86_400_000

/** Names of a project that are counted at most. */
const MAX_NAMES = 50_000

/** Characters of names that are asked for by name; with more, events of all names are read. */
const MAX_NAMES_LENGTH = 50_000

/** Stored events of the last days by their timestamp. */
export interface StoredEventsQuery {
  projectId: number
  /** Days before now, 1 to 365. */
  days: number
  limit: number
  /** Epoch milliseconds. */
  now: number
}

export interface EventSelection {
  /** The name of the events, or whether events of a name are wanted. */
  names: string | ((event: string) => boolean)
  /** SQL of texts. If `names` is a function, `event` is the first of them. */
  columns: readonly string[]
}

export interface StoredEvent {
  uuid: string
  /** JSON of the list of columns. */
  columns: string
  properties: string
}

const UUID_LENGTH = 36

/** @param signal  Ends the queries. */
export function createEventReader (
  clickhouse: ClickHouse, { projectId: project, days, now }: StoredEventsQuery,
  { names, columns, signal }: EventSelection & { signal: AbortSignal | undefined }
) {
  const ofProject = `FROM events WHERE project_id = {project: UInt32}
    AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})`
  const isWanted = typeof names === 'string' ? (event: string) => event === names : names
  // The JSON of the properties comes as it is: within other JSON it would be escaped, which takes as long again.
  const line = `concat(toString(uuid), toJSONString([${columns.join(', ')}]), '\\t', translate(properties, '\\n', ' '))`
  /** SQL for the names that are asked for; null: they are too many for SQL. */
  let ofNames: string | null = typeof names === 'string' ? `AND event = ${quoteString(names)}` : null

  return { countEvents, readDay }

  /** Counts the events, and the days until the oldest one. To be called first. */
  async function countEvents (): Promise<{ events: number, days: number }> {
    const rows = await queryRows<{ event: string, events: string, oldest: string }>(clickhouse, `
      SELECT event, toString(count()) AS events, toString(min(toUnixTimestamp64Milli(timestamp))) AS oldest
      ${ofProject} ${ofNames ?? ''} GROUP BY event ORDER BY count() DESC LIMIT ${MAX_NAMES + 1}`, {
      project, from: now - days * DAY_MS, to: now + DAY_MS
    })
    const wanted = rows.filter(({ event }) => isWanted(event))
    const areAllKnown = rows.length <= MAX_NAMES
    if (ofNames === null && areAllKnown) ofNames = conditionOf(wanted.map(({ event }) => event), rows.length)
    const oldest = wanted.reduce((least, each) => Math.min(least, Number(each.oldest)), now)
    return {
      events: wanted.reduce((sum, { events }) => sum + Number(events), 0),
      days: !areAllKnown ? days : wanted.length === 0 ? 0 : Math.min(days, Math.floor((now - oldest) / DAY_MS) + 1)
    }
  }

  /** The events of one day; day 0 is the last 24 hours, with what came from clocks that are ahead. */
  async function * readDay (day: number, limit: number): AsyncGenerator<StoredEvent[]> {
    const result = await clickhouse.query({
      query: `SELECT ${line} ${ofProject} ${ofNames === null ? '' : `${ofNames} LIMIT {limit: UInt32}`}`,
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
      const events = lines.map(({ text }) => readLine(text))
      const wanted = ofNames !== null ? events : events.filter((event) => isWanted(nameOf(event)))
      yield wanted.slice(0, left)
      left -= wanted.length
      // Leaving the loop ends the query.
      if (left <= 0) return
    }
  }
}

/** Nothing when all names are asked for; null when they are too many. */
function conditionOf (wanted: readonly string[], known: number): string | null {
  if (wanted.length === known) return ''
  const names = wanted.map(quoteString).join(', ')
  return names.length > MAX_NAMES_LENGTH ? null : `AND event IN (${names})`
}

function nameOf ({ columns }: StoredEvent): string {
  // A list of texts, as SQL made it.
  const [name = ''] = JSON.parse(columns) as string[]
  return name
}

function readLine (text: string): StoredEvent {
  const end = text.indexOf('\t', UUID_LENGTH)
  return { uuid: text.slice(0, UUID_LENGTH), columns: text.slice(UUID_LENGTH, end), properties: text.slice(end + 1) }
}
