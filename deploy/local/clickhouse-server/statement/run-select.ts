import { closeSync, constants, createReadStream, openSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { type Answer, type BodyTransform, summarizeRows, type Summary } from '../answer.ts'
import type { EngineSession } from '../engine/engine.ts'
import { QueryError } from '../errors.ts'
import type { KillQuery } from '../running-queries.ts'
import type { QueryRecord } from '../server-database.ts'
import { type Spool, SpoolFile } from '../engine/spool.ts'

export interface SelectRun {
  session: EngineSession
  /** Ends in INTO OUTFILE with the pipe's path. */
  sql: string
  pipe: ResultPipe
  spool: Spool
  answer: Answer
  record: QueryRecord
  /** What the client wants to be different from what the engine writes. */
  rewrite: BodyTransform | undefined
  killQuery: KillQuery
  /** Fires when the client has gone. */
  signal: AbortSignal
  waitEndOfQuery: boolean
  /** An error within so much of the result still gets its own status. */
  holdBytes: number
}

/** A result that is held back to its end stays in memory up to here, and goes to the spool beyond. */
const HOLD_IN_MEMORY_BYTES = 8_388_608

/**
 * Runs a statement whose rows come through a pipe, and passes them on as they come, at the client's pace.
 *
 * When it resolves, the engine has ended the query, so that session and pipe are free again.
 *
 * @throws the engine's error, {QueryError} 394 for a query that was cancelled; `answer` may have begun by then.
 */
export async function runSelect (run: SelectRun): Promise<void> {
  const rows = run.pipe.open()
  const query = run.session.run(run.sql).finally(() => run.pipe.finish())
  const held = new HeldRows(run.spool)
  try {
    const [result, passedOn] = await Promise.allSettled([
      run.killQuery.whenAborted(run.session, run.signal, query),
      passOn(rows, run, held)
    ])
    if (run.signal.aborted) throw new QueryError(394, 'Query was cancelled')
    if (passedOn.status === 'rejected') throw passedOn.reason
    if (result.status === 'rejected') throw result.reason
    const summary = summarizeRows(run.record, result.value)
    if (!run.answer.started) await sendHeld(run.answer, held, summary)
    await run.answer.end()
  } finally {
    await held.abandon()
  }
}

/**
 * Reads the pipe to its end, or gives up.
 *
 * Giving up closes the pipe, which fails the engine's next write; KILL alone cannot wake a thread that waits for room
 * in a pipe. It happens only when a piece has come, never before: a pipe without reader would hold up an engine that
 * is just about to open it, for good.
 */
async function passOn (rows: Readable, run: SelectRun, held: HeldRows): Promise<void> {
  const { answer, signal, rewrite } = run
  const givenUp = new Promise<void>((resolve) => { signal.addEventListener('abort', () => resolve(), { once: true }) })
  try {
    for await (const chunk of rows as AsyncIterable<Buffer>) {
      if (signal.aborted) return
      for (const piece of rewrite?.write(chunk) ?? [chunk]) {
        if (answer.started) await Promise.race([answer.write(piece), givenUp])
        else await held.add(piece)
      }
      if (!answer.started && !run.waitEndOfQuery && held.bytes > run.holdBytes) {
        await Promise.race([sendHeld(answer, held, undefined), givenUp])
      }
    }
  } finally {
    run.pipe.finish()
  }
}

async function sendHeld (answer: Answer, held: HeldRows, summary: Summary | undefined): Promise<void> {
  answer.start(summary)
  for await (const chunk of held.read()) await answer.write(chunk)
}

/** The beginning of a result, or all of it, before the headers are sent. */
class HeldRows {
  bytes = 0
  #spool: Spool
  #chunks: Uint8Array[] = []
  #file: SpoolFile | undefined

  constructor (spool: Spool) {
    this.#spool = spool
  }

  async add (chunk: Uint8Array): Promise<void> {
    this.bytes += chunk.length
    if (this.bytes <= HOLD_IN_MEMORY_BYTES) {
      this.#chunks.push(chunk)
      return
    }
    this.#file ??= await SpoolFile.create(this.#spool, 0)
    await this.#file.append(chunk)
  }

  async * read (): AsyncGenerator<Uint8Array> {
    yield * this.#chunks.splice(0)
    if (this.#file !== undefined) yield * createReadStream(this.#file.path) as AsyncIterable<Uint8Array>
  }

  async abandon (): Promise<void> {
    await this.#file?.abandon()
  }
}

/**
 * A named pipe through which the engine hands out the rows of one query at a time.
 *
 * Why a pipe: the engine writes a result as one document in any of its formats only to a file (`INTO OUTFILE`); its
 * streaming call repeats header and footer with each block. Through a pipe that "file" takes no room, the engine waits
 * when the client is slow, and closing both ends here makes its next write fail.
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

  /** To be called when the engine has ended the query, however it ended, or when its rows are given up. */
  finish (): void {
    if (this.#keeper !== undefined) closeSync(this.#keeper)
    this.#keeper = undefined
  }
}
