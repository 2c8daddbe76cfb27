/** One insert of frames over HTTP, and the settings under which ClickHouse recognises its repetition. */
import http from 'node:http'
import https from 'node:https'
import { FIRST_REPLICA, parseClickHouseUrl } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { MillraceError } from '../../../engines/errors.ts'
import { EVENT_COLUMNS } from '../../../schema/wire/event-row.ts'

/**
 * One insert: the frames of a batch range, the token by which a repetition is recognised, the settings of its version.
 */
export interface FramesInsert {
  /** zstd frames of Native blocks; written to the socket as they are, never copied together. */
  frames: readonly Uint8Array[]
  token: string
  /** What the query log of ClickHouse shows of it. */
  comment?: string
  settings: Readonly<Record<string, string>>
  signal?: AbortSignal
  /** Tries before this one, and how many of them ClickHouse did not answer in time. */
  attempt?: number
  silences?: number
}

export type InsertFrames = (insert: FramesInsert) => Promise<void>

/** Keeps sockets to ClickHouse open between inserts. @param url  Only its scheme counts. Default: without TLS. */
export function createClickHouseAgent (url = 'http:'): http.Agent {
  const Agent = url.startsWith('https:') ? https.Agent : http.Agent
  return new Agent({ keepAlive: true, maxSockets: 16 })
}

/**
 * Silence of ClickHouse after which an insert counts as failed with an unknown outcome, in milliseconds. The batch
 * range is inserted again with its token then, so a wrong guess costs work, not truth.
 */
const INSERT_TIMEOUT_MS = 120_000

/**
 * The columns are named although each frame names them itself: only then does ClickHouse prepare the defaults of the
 * others once an insert, instead of once a frame (39 against 14 CPU us a row in frames of 20 rows).
 */
const INSERT = `INSERT INTO events (${EVENT_COLUMNS.map(({ name }) => name).join(', ')}) FORMAT Native`

/** Where `events` is spread over shards, the answer comes when each of them has its rows. Changes no block. */
const EVERY_INSERT = { distributed_foreground_insert: '1', ...FIRST_REPLICA } as const

/**
 * Inserts below some 8,000 events, in bytes, leave the skip indexes of their part to its first merge: half of the
 * files of a small part, which queries read whole just as fast.
 */
const SMALL_INSERT_BYTES = 1_048_576

/** The wait doubles with each silence, up to so often: a slow view needs longer for each try, not more tries. */
const MAX_DOUBLINGS = 5

/** Characters of an error's text that are kept of its begin, and of its end, which says where it was. */
const MAX_ERROR_CHARACTERS = 8192

/** ClickHouse refused an insert, or its answer never came. */
export class InsertError extends MillraceError {
  /** ClickHouse's own error code; 0 when it gave none (connection, timeout, proxy). */
  readonly clickhouseCode: number
  /** ClickHouse took longer than was waited for. */
  readonly isSilence: boolean

  constructor (message: string, clickhouseCode: number, cause?: unknown, isSilence = false) {
    super('MILLRACE_INSERT_FAILED', message, { action: 'retry', cause, details: { clickhouseCode } })
    this.name = 'InsertError'
    this.clickhouseCode = clickhouseCode
    this.isSilence = isSilence
  }
}

/**
 * Creates the function that inserts frames into `events` over plain HTTP. The official client is not used here: it
 * costs four times the CPU per byte and wants streams of objects or one more copy.
 *
 * The function resolves only when ClickHouse confirmed that all rows are stored, in the table and in its views.
 *
 * @throws {InsertError} with ClickHouse's code; it is unknown then whether rows were stored, unless the code tells.
 */
export function createInsertFrames (options: { url: string, agent: http.Agent, timeoutMs?: number }): InsertFrames {
  const { origin, database, headers } = parseClickHouseUrl(options.url)
  const request = origin.startsWith('https:') ? https.request : http.request

  return async function insertFrames ({ frames, token, comment = '', settings, signal, silences = 0 }) {
    const timeoutMs = (options.timeoutMs ?? INSERT_TIMEOUT_MS) * 2 ** Math.min(silences, MAX_DOUBLINGS)
    const length = frames.reduce((sum, frame) => sum + frame.length, 0)
    const query = new URLSearchParams({
      ...EVERY_INSERT,
      ...(length < SMALL_INSERT_BYTES && { materialize_skip_indexes_on_insert: '0' }),
      ...settings, database, insert_deduplication_token: token, log_comment: comment, query: INSERT
    })
    await new Promise<void>((resolve, reject) => {
      const sent = request(`${origin}/?${query}`, {
        method: 'POST',
        agent: options.agent,
        headers: { ...headers, 'content-encoding': 'zstd', 'content-type': 'application/octet-stream', 'content-length': length },
        ...(signal === undefined ? {} : { signal })
      })
      sent.setTimeout(timeoutMs, () => {
        sent.destroy(new InsertError(`ClickHouse did not answer within ${timeoutMs} ms`, 0, undefined, true))
      })
      sent.on('error', (error) => {
        reject(error instanceof InsertError ? error : new InsertError(`insert failed: ${error.message}`, 0, error))
      })
      sent.on('response', (response) => {
        readAnswer(response).then(resolve, reject)
      })
      // The socket's own buffering is enough: the frames are in memory already, so nothing is gained by pausing.
      for (const frame of frames) sent.write(frame)
      sent.end()
    })
  }
}

async function readAnswer (response: http.IncomingMessage): Promise<void> {
  let text = ''
  try {
    for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) {
      text += chunk
      if (text.length <= 2 * MAX_ERROR_CHARACTERS) continue
      text = text.slice(0, MAX_ERROR_CHARACTERS) + text.slice(-MAX_ERROR_CHARACTERS)
    }
  } catch (error) {
    throw new InsertError('the connection broke while ClickHouse answered', 0, error)
  }
  // An error after the status line was sent shows in a header or only in the text.
  const code = Number(response.headers['x-clickhouse-exception-code'] ?? /^Code: (\d+)/m.exec(text)?.[1] ?? 0)
  if (response.statusCode !== 200 || code !== 0) {
    throw new InsertError(text.trim() || `ClickHouse answered with status ${response.statusCode}`, code)
  }
}

/**
 * Settings of every insert, by version. They are part of a batch's identity: ClickHouse recognises a repeated insert
 * by its token *and* by how its rows were split into blocks, so the same batch range must always be inserted with the
 * same settings, also by the release after this one. Never edit a version; add one and keep the old ones for the batch
 * ranges that were recorded with them. Another way to join frames (`join-frames.ts`), or to make a token
 * (`batchRangeToken`), is another version, too.
 *
 * Whatever the frames are, their rows become one block (measured: two blocks with another boundary on the retry are
 * stored twice), dependent views deduplicate too, and nothing is queued inside the server.
 */
export const INSERT_SETTINGS: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  4: {
    async_insert: '0',
    input_format_parallel_parsing: '0',
    // A column that the table does not have must not be dropped in silence: the table is behind, the partition waits.
    input_format_skip_unknown_fields: '0',
    max_insert_block_size: '2000000',
    max_insert_block_size_bytes: '0',
    // Frames arrive as many small blocks; both limits must be out of reach, or they are joined into several.
    min_insert_block_size_rows: '2000000',
    min_insert_block_size_bytes: '0',
    // By default a ReplacingMergeTree merges each block with itself before it writes it: half of an insert's cost
    // (7.4 against 3.2 CPU us a row, 200,000 rows of 31 columns). The writer does not insert duplicates
    // inside a batch range.
    optimize_on_insert: '0',
    deduplicate_insert: 'enable',
    deduplicate_blocks_in_dependent_materialized_views: '1',
    wait_end_of_query: '1',
    // An insert may touch every month there is: some 330, as ingest takes times from 2000 on. By default it is 100,
    // and late events of many years would be refused and halved until the pieces fit (69 s instead of 12 for 5,000).
    max_partitions_per_insert_block: '1000'
  }
}

export const INSERT_SETTINGS_VERSION = 4
