import { closeSync, constants, createReadStream, openSync, rmSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { Answer } from '../http/answer.ts'
import type { EngineSession } from '../engine/engine.ts'
import type { FailedWrites } from '../engine/failed-writes.ts'
import { QueryError } from '../http/query-errors.ts'
import type { KillQuery } from '../engine/running-queries.ts'
import { type QueryRecord, summarize } from '../engine/query-record.ts'
import type { Spool } from '../engine/body-spool.ts'

export interface SelectRun {
  session: EngineSession
  /** Ends in INTO OUTFILE with the pipe's path. */
  sql: string
  pipe: ResultPipe
  spool: Spool
  answer: Answer
  record: QueryRecord
  /** What the client wants to be different from what the engine writes. */
  rewrite: ((chunk: Uint8Array) => Uint8Array[]) | undefined
  killQuery: KillQuery
  failedWrites: FailedWrites
  /** Fires when the client has gone; with a {QueryError} as its reason, that is the query's error. */
  signal: AbortSignal
  waitEndOfQuery: boolean
  /** An error within so much of the result still gets its own status. */
  holdBytes: number
}

/** A query that keeps rows on the disk, sorting or grouping more than the memory holds, takes longer. */
const SPILLS_AFTER_SECONDS = 0.5

/** A result that is held back to its end stays in memory up to here, and goes to the spool beyond. */
const HOLD_IN_MEMORY_BYTES = 8_388_608

/**
 * Runs a statement whose rows come through a pipe, and passes them on as they come, at the client's pace.
 *
 * When it resolves, the engine has ended the query, so that session and pipe are free again.
 *
 * @throws the engine's error, {QueryError} 394 for a query that was cancelled, 209 for one whose client has stopped
 *   reading; `answer` may have begun by then.
 */
export async function runSelect (run: SelectRun): Promise<void> {
  const rows = run.pipe.open()
  const query = run.session.run(run.sql).finally(() => run.pipe.finish())
  const held = new HeldRows(run.spool)
  try {
    const [result, passedOn] = await Promise.allSettled([
      run.killQuery.whenAborted(run.session, run.signal, query),
      passOn(rows, run, { held, query })
    ])
    if (run.signal.aborted) throw run.signal.reason instanceof QueryError ? run.signal.reason : new QueryError(394, 'Query was cancelled')
    if (passedOn.status === 'rejected') throw passedOn.reason
    if (result.status === 'rejected') throw result.reason
    if (result.value.elapsedSeconds > SPILLS_AFTER_SECONDS) await run.failedWrites.check()
    const summary = summarize(run.record, result.value)
    if (!run.answer.started) await sendHeld(run.answer, held, summary)
    await run.answer.end()
  } finally {
    await held.abandon()
  }
}

/**
 * Reads the pipe to its end. What nobody wants any more is thrown away, until the engine has ended the query: a thread
 * that waits for room in the pipe does not see a KILL, and a closed pipe would count as a failed write (see
 * `failed-writes.ts`).
 */
async function passOn (
  rows: Readable, run: SelectRun, { held, query }: { held: HeldRows, query: Promise<unknown> }
): Promise<void> {
  const { signal } = run
  const givenUp = new Promise<void>((resolve) => { signal.addEventListener('abort', () => resolve(), { once: true }) })
  let failure: { error: unknown, killed: Promise<void> } | undefined
  for await (const chunk of rows as AsyncIterable<Buffer>) {
    if (signal.aborted || failure !== undefined) continue
    try {
      await passOnChunk(chunk, run, { held, givenUp })
    } catch (error) {
      failure = { error, killed: run.killQuery.kill(run.session, query) }
    }
  }
  if (failure === undefined) return
  await failure.killed
  throw failure.error
}

async function passOnChunk (
  chunk: Buffer, { answer, rewrite, waitEndOfQuery, holdBytes }: SelectRun,
  { held, givenUp }: { held: HeldRows, givenUp: Promise<void> }
): Promise<void> {
  for (const piece of rewrite?.(chunk) ?? [chunk]) {
    if (answer.started) await Promise.race([answer.write(piece), givenUp])
    else await held.add(piece)
  }
  if (!answer.started && !waitEndOfQuery && held.bytes > holdBytes) {
    await Promise.race([sendHeld(answer, held, undefined), givenUp])
  }
}

async function sendHeld (answer: Answer, held: HeldRows, summary: string | undefined): Promise<void> {
  answer.start(summary)
  for await (const chunk of held.read()) await answer.write(chunk)
}

/** The beginning of a result, or all of it, before the headers are sent. */
class HeldRows {
  bytes = 0
  #spool: Spool
  #chunks: Uint8Array[] = []
  #path = ''
  #file: FileHandle | undefined

  constructor (spool: Spool) {
    this.#spool = spool
  }

  async add (chunk: Uint8Array): Promise<void> {
    this.bytes += chunk.length
    if (this.bytes <= HOLD_IN_MEMORY_BYTES) {
      this.#chunks.push(chunk)
      return
    }
    this.#path ||= this.#spool.newPath(0)
    this.#file ??= await open(this.#path, 'wx', 0o600)
    await this.#file.appendFile(chunk)
  }

  async * read (): AsyncGenerator<Uint8Array> {
    yield * this.#chunks.splice(0)
    if (this.#file !== undefined) yield * createReadStream(this.#path) as AsyncIterable<Uint8Array>
  }

  async abandon (): Promise<void> {
    if (this.#file === undefined) return
    await this.#file.close()
    rmSync(this.#path, { force: true })
  }
}

/**
 * A named pipe through which the engine hands out the rows of one query at a time.
 *
 * Why a pipe: the engine writes a result as one document in any of its formats only to a file (`INTO OUTFILE`); its
 * streaming call repeats header and footer with each block. Through a pipe that "file" takes no room, and the engine
 * waits when the client is slow.
 */
export class ResultPipe {
  readonly path: string
  #keeper: number | undefined

  constructor (path: string) {
    this.path = path
  }

  /** Opens the reading end. The stream ends after `finish`, when the last byte was read. */
  open (): Readable {
    // Without a writer a reader sees the end at once; this end stands in until the engine has opened its own, and for
    // queries that fail before they open it.
    this.#keeper = openSync(this.path, constants.O_RDWR | constants.O_NONBLOCK)
    const fd = openSync(this.path, constants.O_RDONLY | constants.O_NONBLOCK)
    return new Socket({ fd, readable: true, writable: false })
  }

  /** To be called when the engine has ended the query, however it ended. */
  finish (): void {
    if (this.#keeper !== undefined) closeSync(this.#keeper)
    this.#keeper = undefined
  }
}
