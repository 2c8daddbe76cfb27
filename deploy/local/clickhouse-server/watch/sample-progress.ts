import { type Logger } from 'pino'
import { type EngineSession } from '../engine/engine-session.ts'

/** What a running query has used so far. */
export interface Progress {
  readRows: number
  readBytes: number
  memoryUsage: number
}

/** Most queries are over before the first sample, and cost nothing here. */
const INTERVAL_MS = 500

/**
 * Asks the engine now and then what the running queries have read.
 *
 * Why by sampling: the engine tells how many rows a query gave, but not how many it read, once it has ended. So a
 * query of less than half a second shows what it gave; of a longer one, at most the last half second is missing.
 */
export class ProgressSampler {
  #session: EngineSession
  #logger: Logger
  #watched = new Map<string, Progress>()
  #timer: NodeJS.Timeout | undefined

  constructor (session: EngineSession, logger: Logger) {
    this.#session = session
    this.#logger = logger
  }

  /** Does work on a session and keeps its progress in the given record. */
  async during<T> (session: EngineSession, progress: Progress, work: () => Promise<T>): Promise<T> {
    this.#watched.set(session.mark, progress)
    this.#timer ??= setInterval(() => { void this.#sample() }, INTERVAL_MS).unref()
    try {
      return await work()
    } finally {
      this.#watched.delete(session.mark)
      if (this.#watched.size === 0) {
        clearInterval(this.#timer)
        this.#timer = undefined
      }
    }
  }

  async #sample (): Promise<void> {
    try {
      const { bytes } = await this.#session.run(RUNNING)
      for (const line of Buffer.from(bytes).toString().trim().split('\n')) {
        const [mark = '', ...counts] = line.split('\t')
        const [readRows, readBytes, memoryUsage] = counts.map(Number)
        Object.assign(this.#watched.get(mark) ?? {}, { readRows, readBytes, memoryUsage })
      }
    } catch (err) {
      this.#logger.warn({ err }, 'progress of queries could not be read')
    }
  }
}

const RUNNING = `SELECT Settings['log_comment'], read_rows, read_bytes, peak_memory_usage
FROM system.processes WHERE elapsed > 0.2`
