import { createReadStream, rmSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { Answer } from '../http/answer.ts'
import type { EngineSession } from '../engine/engine.ts'
import { QueryError } from '../http/query-errors.ts'
import { summarize } from '../engine/query-record.ts'
import type { ResultPipe, Spool } from '../engine/body-spool.ts'
import type { Query, ServerParts } from '../server-parts.ts'

export interface Selection {
  session: EngineSession
  /** Ends in INTO OUTFILE with the pipe's path. */
  sql: string
  pipe: ResultPipe
  /** What the client wants to be different from what the engine writes. */
  rewrite: ((chunk: Uint8Array) => Uint8Array[]) | undefined
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
export async function runSelect ({ storage, queries }: ServerParts, query: Query, selection: Selection): Promise<void> {
  const { session, sql, pipe } = selection
  const { answer, record, stops: { unwanted: { signal } } } = query
  const rows = pipe.open()
  const running = session.run(sql).finally(() => pipe.finish())
  const held = new HeldRows(storage.spool)
  try {
    const [result, passedOn] = await Promise.allSettled([
      queries.killQuery.whenAborted(session, signal, running),
      passOn(rows, query, selection, { held, kill: async () => await queries.killQuery.kill(session, running) })
    ])
    if (signal.aborted) throw signal.reason instanceof QueryError ? signal.reason : new QueryError(394, 'Query was cancelled')
    if (passedOn.status === 'rejected') throw passedOn.reason
    if (result.status === 'rejected') throw result.reason
    if (result.value.elapsedSeconds > SPILLS_AFTER_SECONDS) await storage.failedWrites.check()
    const summary = summarize(record, result.value)
    if (!answer.started) await sendHeld(answer, held, summary)
    await answer.end()
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
  rows: Readable, { answer, request, stops: { unwanted: { signal } } }: Query, { rewrite, holdBytes }: Selection,
  { held, kill }: { held: HeldRows, kill: () => Promise<void> }
): Promise<void> {
  const givenUp = new Promise<void>((resolve) => { signal.addEventListener('abort', () => resolve(), { once: true }) })
  const passOnChunk = async (chunk: Buffer): Promise<void> => {
    for (const piece of rewrite?.(chunk) ?? [chunk]) {
      if (answer.started) await Promise.race([answer.write(piece), givenUp])
      else await held.add(piece)
    }
    if (answer.started || request.waitEndOfQuery || held.bytes <= holdBytes) return
    await Promise.race([sendHeld(answer, held, undefined), givenUp])
  }
  let failure: { error: unknown, killed: Promise<void> } | undefined
  for await (const chunk of rows as AsyncIterable<Buffer>) {
    if (signal.aborted || failure !== undefined) continue
    try {
      await passOnChunk(chunk)
    } catch (error) {
      failure = { error, killed: kill() }
    }
  }
  if (failure === undefined) return
  await failure.killed
  throw failure.error
}

async function sendHeld (answer: Answer, held: HeldRows, summary: string | undefined): Promise<void> {
  answer.start(summary)
  for await (const chunk of held.read()) await answer.write(chunk)
}

/** What of a result came before the headers are sent. */
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
