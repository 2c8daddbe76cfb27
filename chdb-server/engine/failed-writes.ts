import { readFileSync } from 'node:fs'
import type { Logger } from '../json-log.ts'
import type { EngineSession } from './engine.ts'

/** Merges write without a statement: how often to ask then. Far below how long the sources of a merge are kept. */
const ASK_INTERVAL_MS = 500
/** While nothing was written since the last answer. No longer: what was written during that question is not seen. */
const IDLE_INTERVAL_MS = 5000

/** What the engine answers to every statement after a fatal error. */
const FATAL = /shutting down due to a fatal error/

const COUNT_FAILED = "SELECT value FROM system.events WHERE event = 'WriteBufferFromFileDescriptorWriteFailed'"

/** How many writes failed, and when the last question began that found none (epoch milliseconds); or a fatal error. */
type EngineFailure = { failed: number, since: number } | { err: unknown }

/**
 * Ends the process when the engine could not write a file, before anything that depends on it is answered.
 *
 * The engine of chdb (3.4, ClickHouse 26.7) counts a `write` that fails, as on a full disk, and goes on: unlike in
 * ClickHouse's own server, the line that throws is commented out in its `WriteBufferFromFileDescriptor::nextImpl`.
 * An insert would be answered, and a merge would take the place of its sources, with files that are empty. So what
 * the engine holds after that is not to be trusted: the process ends as by kill -9, and the next one finds on the
 * disk what is whole. Parts whose files are too short are detached, their sources are used again (see
 * `old_parts_lifetime` in `profiles.ts`), the tokens of lost inserts are forgotten (`forget-lost-parts.ts`), inserts
 * whose token was lost are taken back (`remove-unanswered-parts.ts`), and clients repeat what was not answered.
 *
 * The process ends likewise when the engine has met a fatal error of its own, such as a failed assertion: it lives on,
 * but answers nothing any more.
 */
export class FailedWrites {
  readonly #session: EngineSession
  readonly #end: (why: EngineFailure) => void
  readonly #timer: NodeJS.Timeout
  #asking: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined
  #cleanAt = Date.now()
  /** What `countWrites` gave when the last answer came. */
  #writes = NaN

  /**
   * @param session  One that runs nothing else.
   * @param end      Ends the process.
   */
  constructor (session: EngineSession, end: (why: EngineFailure) => void) {
    this.#session = session
    this.#end = end
    // A failed question is asked again; a statement that needs the answer gets the error.
    this.#timer = setInterval(() => { if (this.#isDue()) void this.check().catch(() => {}) }, ASK_INTERVAL_MS).unref()
  }

  /**
   * To be called when a statement has run, before it is answered. Resolves when all that the engine wrote before this
   * call is on the disk; never, when something is not. Calls of one moment share a question (0.8 ms).
   *
   * @throws the engine's error when it does not answer: nothing is known then.
   */
  async check (): Promise<void> {
    // Not the question under way: it may have been answered before this caller's last write.
    this.#next ??= this.#asking.catch(() => {}).then(async () => {
      this.#asking = this.#next!
      this.#next = undefined
      await this.#ask()
    })
    await this.#next
  }

  close (): void {
    clearInterval(this.#timer)
  }

  /** Not right after a statement asked. At rest, questions were half of what the process costs. */
  #isDue (): boolean {
    const age = Date.now() - this.#cleanAt
    return age >= IDLE_INTERVAL_MS || (age >= ASK_INTERVAL_MS && countWrites() !== this.#writes)
  }

  async #ask (): Promise<void> {
    const askedAt = Date.now()
    const { bytes } = await this.#session.run(COUNT_FAILED).catch((error: unknown) => {
      if (error instanceof Error && FATAL.test(error.message)) this.#end({ err: error })
      throw error
    })
    const failed = Number(Buffer.from(bytes).toString())
    if (failed === 0) {
      this.#cleanAt = askedAt
      this.#writes = countWrites()
      return
    }
    this.#end({ failed, since: this.#cleanAt })
    await new Promise(() => {})
  }
}

/** How often this process has called the system to write, also in vain; NaN where the system does not tell. */
function countWrites (): number {
  try {
    return Number(/^syscw: (\d+)/m.exec(readFileSync('/proc/self/io', 'latin1'))?.[1])
  } catch {
    return NaN
  }
}

/** Ends this process at once: nothing is closed, so that the engine writes nothing more. */
export function endWithoutClosing (logger: Logger, why: EngineFailure): void {
  const what = 'failed' in why
    ? 'ClickHouse could not write to its disk, is it full? Killing it, so that no damaged part is used'
    : 'ClickHouse met a fatal error and no longer answers; its standard error says which. Killing it'
  logger.fatal(why, `${what}: what was stored is read again at the next start`)
  process.kill(process.pid, 'SIGKILL')
}
