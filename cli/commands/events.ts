import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { CliContext } from '../cli-context.ts'
import { requireProject } from '../optional-services.ts'
import { readCount, readId } from '../read-arguments.ts'

interface TailOptions {
  project: number
  event?: string
  distinctId?: string
  lines: number
  limit?: number
  json?: boolean
}

interface TailedEvent {
  uuid: string
  event: string
  distinct_id: string
  timestamp: string
  inserted_at: string
  properties: string
}

/** Where the next reading begins: behind this row. */
interface Place {
  insertedAt: string
  uuid: string
}

const POLL_MS = 500

/** Rows of one reading; the next one follows at once when there were as many. */
const PAGE_ROWS = 1000

/** A row gets its `inserted_at` before others can see it: what is younger, in seconds, is left for later. */
const VISIBLE_AFTER_SECONDS = 2

const NO_UUID = '00000000-0000-0000-0000-000000000000'

/** `millrace events tail`. */
export function addEventsCommands (program: Command, context: CliContext): void {
  const group = program.command('events').description('watch the events of a project')
  group.command('tail')
    .description(`show stored events as they come, about ${VISIBLE_AFTER_SECONDS} seconds after they were inserted, until Ctrl-C`)
    .option('--project <id>', 'project of the events', readId, 1)
    .option('--event <name>', 'only events of this name')
    .option('--distinct-id <id>', 'only events of this distinct id')
    .option('--lines <count>', 'events of the last day to show first', readCount, 10)
    .option('--limit <count>', 'end after as many events', readCount)
    .option('--json', 'write one JSON object a line, with the properties')
    .action(async (options: TailOptions) => { await tail(context, options) })
}

async function tail (context: CliContext, options: TailOptions): Promise<void> {
  context.endAtInterrupt()
  const clickhouse = await context.clickhouse()
  let left = options.limit ?? Infinity
  const { rows: newest, place: start } = await readNewest(clickhouse, options)
  if (newest.length === 0) await requireProject(context, options.project)
  let place = start
  let rows = newest
  for (;;) {
    const shown = rows.slice(0, left)
    for (const row of shown) context.stdout.write(`${options.json === true ? toJson(row) : toLine(row)}\n`)
    left -= shown.length
    if (left <= 0) return
    if (rows.length < PAGE_ROWS) await delay(POLL_MS)
    rows = await readBehind(clickhouse, options, place)
    const last = rows.at(-1)
    if (last !== undefined) place = { insertedAt: last.inserted_at, uuid: last.uuid }
  }
}

/** The last events of a day, oldest first, and the place behind all that are visible now. */
async function readNewest (
  clickhouse: ClickHouse, options: TailOptions
): Promise<{ rows: TailedEvent[], place: Place }> {
  const [now] = await queryRows<{ at: string }>(clickhouse,
    'SELECT now64(3) - toIntervalSecond({delay: UInt8}) AS at', { delay: VISIBLE_AFTER_SECONDS })
  const insertedAt = now?.at ?? ''
  const rows = await queryRows<TailedEvent>(clickhouse, `${select(options)}
    AND inserted_at > toDateTime64({until: String}, 3, 'UTC') - toIntervalDay(1)
    AND inserted_at <= toDateTime64({until: String}, 3, 'UTC')
    ORDER BY inserted_at DESC, uuid DESC LIMIT {limit: UInt32}`, { ...params(options), until: insertedAt, limit: options.lines })
  // No uuid is greater, so every row of this millisecond was before.
  return { rows: rows.reverse(), place: { insertedAt, uuid: NO_UUID.replaceAll('0', 'f') } }
}

async function readBehind (clickhouse: ClickHouse, options: TailOptions, place: Place): Promise<TailedEvent[]> {
  return await queryRows<TailedEvent>(clickhouse, `${select(options)}
    AND inserted_at >= toDateTime64({after: String}, 3, 'UTC')
    AND (inserted_at, uuid) > (toDateTime64({after: String}, 3, 'UTC'), {uuid: UUID})
    AND inserted_at <= now64(3) - toIntervalSecond({delay: UInt8})
    ORDER BY inserted_at, uuid LIMIT {limit: UInt32}`, {
    ...params(options), after: place.insertedAt, uuid: place.uuid, delay: VISIBLE_AFTER_SECONDS, limit: PAGE_ROWS
  })
}

function select ({ event, distinctId }: TailOptions): string {
  return `SELECT uuid, event, distinct_id, timestamp, inserted_at, properties
    FROM events WHERE project_id = {project: UInt32}
    ${event === undefined ? '' : 'AND event = {event: String}'}
    ${distinctId === undefined ? '' : 'AND distinct_id = {distinct_id: String}'}`
}

function params ({ project, event, distinctId }: TailOptions): Record<string, unknown> {
  const named = distinctId !== undefined && { distinct_id: distinctId }
  return { project, ...(event !== undefined && { event }), ...named }
}

/** Texts of clients must not reach the terminal with their control characters. */
function toLine ({ timestamp, event, distinct_id: distinctId, uuid }: TailedEvent): string {
  return `${timestamp}  ${uuid}  ${event}  ${distinctId}`.replaceAll(/\p{Cc}/gu, '?')
}

/** The properties as they are stored, whose long numbers `JSON.parse` would round. */
function toJson ({ properties, ...fields }: TailedEvent): string {
  return `${JSON.stringify(fields).slice(0, -1)},"properties":${properties}}`
}
