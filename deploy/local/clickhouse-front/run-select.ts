import { createReadStream } from 'node:fs'
import { type Readable } from 'node:stream'
import { type Answer, type Summary } from './answer.ts'
import { type EngineSession } from './engine-session.ts'
import { type KillQuery } from './kill-query.ts'
import { type QueryRecord } from './query-log.ts'
import { type ResultPipe } from './result-pipe.ts'
import { SpoolFile } from './spool-body.ts'
import { type Spool } from './spool.ts'
import { summarizeRows } from './summarize.ts'

export interface SelectRun {
  session: EngineSession
  /** Ends in INTO OUTFILE with the pipe's path. */
  sql: string
  pipe: ResultPipe
  spool: Spool
  answer: Answer
  record: QueryRecord
  killQuery: KillQuery
  /** Fires when the client has gone. */
  signal: AbortSignal
  waitEndOfQuery: boolean
}

/** Servers hold back the first mebibyte too: an error found within it still gets its own status. */
const HOLD_BYTES = 1_048_576
/** A result that is held back to its end stays in memory up to here, and goes to the spool beyond. */
const HOLD_IN_MEMORY_BYTES = 8_388_608

/**
 * Runs a statement whose rows come through a pipe, and passes them on as they come, at the client's pace.
 *
 * @throws the engine's error; `answer` may have begun by then.
 */
export async function runSelect (run: SelectRun): Promise<void> {
  const rows = run.pipe.open()
  const query = run.session.run(run.sql).finally(() => run.pipe.finish())
  let killed: Promise<void> | undefined
  const cancel = (): void => {
    rows.destroy()
    killed ??= run.killQuery.kill(run.session, query)
  }
  run.signal.addEventListener('abort', cancel, { once: true })
  if (run.signal.aborted) cancel()

  const held = new HeldRows(run.spool)
  try {
    const passedOn = passOn(rows, run, held)
    const [result] = await Promise.all([query, passedOn])
    const summary = summarizeRows(run.record, result)
    if (!run.answer.started) await sendHeld(run.answer, held, summary)
    run.answer.end()
  } finally {
    rows.destroy()
    run.signal.removeEventListener('abort', cancel)
    await killed
    await held.abandon()
  }
}

async function passOn (rows: Readable, run: SelectRun, held: HeldRows): Promise<void> {
  const { answer } = run
  try {
    for await (const chunk of rows as AsyncIterable<Buffer>) {
      if (answer.started) {
        await answer.write(chunk)
      } else {
        await held.add(chunk)
        if (!run.waitEndOfQuery && held.bytes > HOLD_BYTES) await sendHeld(answer, held, undefined)
      }
    }
  } catch (error) {
    // The reading end was closed because the client has gone; the query's own end tells the rest.
    if (!run.signal.aborted) throw error
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
  #chunks: Buffer[] = []
  #file: SpoolFile | undefined

  constructor (spool: Spool) {
    this.#spool = spool
  }

  async add (chunk: Buffer): Promise<void> {
    this.bytes += chunk.length
    if (this.bytes <= HOLD_IN_MEMORY_BYTES) {
      this.#chunks.push(chunk)
      return
    }
    this.#file ??= await SpoolFile.create(this.#spool, 0)
    await this.#file.append(chunk)
  }

  async * read (): AsyncGenerator<Buffer> {
    yield * this.#chunks.splice(0)
    if (this.#file !== undefined) yield * createReadStream(this.#file.path) as AsyncIterable<Buffer>
  }

  async abandon (): Promise<void> {
    await this.#file?.abandon()
  }
}
