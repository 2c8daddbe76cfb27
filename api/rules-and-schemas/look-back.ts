/** What looks back over stored events have in common: they read very many, in a process that has other work to do. */
import { PassThrough } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import {
  createEventReader, type EventSelection, type StoredEvent, type StoredEventsQuery
} from './read-stored-events.ts'
import { describeClickHouseError } from '../http/describe-clickhouse-error.ts'
import { HttpError, toHttpErrorBody } from '../../engines/errors.ts'

/** Maximum groups: senders freely choose names of events, properties and SDKs. */
const MAX_GROUPS = 200

/** Other work of the process goes on after so long, in milliseconds. */
const TURN_MS = 10

/** Minimum time between two reports of how far a look back is, in milliseconds. */
const PROGRESS_MS = 200

export interface LookBackOptions {
  /** Called at its beginning, as it goes on and at its end, with the events that were read and those there are. */
  onProgress?: (events: number, total: number) => void
  /** Ends it: it throws. */
  signal?: AbortSignal
}

/** @returns the group of this key, a new one if need be; undefined when there are too many others. */
export function takeGroup<T> (groups: Map<string, T>, key: string, create: () => T): T | undefined {
  const known = groups.get(key)
  if (known !== undefined || groups.size >= MAX_GROUPS) return known
  const group = create()
  groups.set(key, group)
  return group
}

/** A group of the events of an SDK. @param columns  JSON of its name and version. */
export function createSdk (columns: string): { lib: string, lib_version: string, events: number } {
  const [lib, version] = JSON.parse(columns) as [string, string]
  return { lib, lib_version: version, events: 0 }
}

/**
 * Visits stored events, newest day first, as many as the limit of the query allows.
 *
 * @returns false when there are more events than the limit: the older ones are not visited.
 */
export async function visitStoredEvents (
  clickhouse: ClickHouse, { onProgress, signal, ...query }: StoredEventsQuery & LookBackOptions,
  selection: EventSelection, visit: (event: StoredEvent) => void
): Promise<boolean> {
  const reader = createEventReader(clickhouse, query, { ...selection, signal })
  const stored = await reader.countEvents()
  const total = Math.min(stored.events, query.limit)
  let visited = 0
  let isComplete = true
  const showProgress = (): void => onProgress?.(visited, Math.max(total, visited))
  showProgress()
  for (let day = 0; day < stored.days && isComplete; day++) {
    // One more than are visited tells whether there are more.
    await visitRows(reader.readDay(day, query.limit - visited + 1), (event) => {
      isComplete = visited < query.limit
      if (!isComplete) return
      visited++
      visit(event)
    }, showProgress)
  }
  showProgress()
  return isComplete
}

/**
 * Visits each row of a result that comes in pieces, and lets other work of the process go on in between.
 *
 * @param onProgress  Called now and then.
 */
export async function visitRows<T> (
  pieces: AsyncIterable<readonly T[]>, visit: (row: T) => void, onProgress?: () => void
): Promise<void> {
  let turn = performance.now()
  let shownAt = turn
  for await (const rows of pieces) {
    for (const row of rows) {
      visit(row)
      if (performance.now() - turn < TURN_MS) continue
      await new Promise((resolve) => setImmediate(resolve))
      turn = performance.now()
      if (turn - shownAt < PROGRESS_MS) continue
      onProgress?.()
      shownAt = turn
    }
  }
}

const LINES_TYPE = 'application/x-ndjson'

/** What the description of a route says of its answer in lines. */
export const LINES_DESCRIPTION = 'With `Accept: application/x-ndjson` the answer is a stream of lines of JSON: ' +
  '`{"checked": events, "total": events}`, then the prediction or an error.'

/**
 * Answers with what a look back over stored events finds; while it goes on with lines that say how far it is, if the
 * client asks for them. It ends when its client goes away.
 *
 * @throws {HttpError} when ClickHouse refuses, unless the answer is lines: then the last line says it.
 */
export async function answerLookBack (
  request: FastifyRequest, reply: FastifyReply, lookBack: (options: LookBackOptions) => Promise<object>
): Promise<object> {
  const gone = new AbortController()
  reply.raw.once('close', () => gone.abort())
  const run = async (options: LookBackOptions): Promise<object> =>
    await lookBack({ ...options, signal: gone.signal })
      .catch((error: unknown) => { throw describeClickHouseError(error) })
  if (request.headers.accept?.includes(LINES_TYPE) !== true) {
    // Nobody is there to be answered, and no store has failed.
    return await run({}).catch((error: unknown) => { if (gone.signal.aborted) return reply.hijack(); throw error })
  }
  const lines = new PassThrough()
  const write = (line: object): boolean => lines.writable && lines.write(`${JSON.stringify(line)}\n`)
  void run({ onProgress: (checked, total) => write({ checked, total }) })
    // The status is sent long ago, so an error is the last line.
    .catch((error: unknown) => {
      if (!gone.signal.aborted) reply.log.warn({ err: error }, 'check of stored events failed')
      return toHttpErrorBody(error instanceof HttpError ? error : new HttpError(500, 'server_error', 'error', 'A server error occurred.'))
    })
    .then(write)
    .finally(() => lines.end())
  return reply.type(LINES_TYPE).send(lines)
}
