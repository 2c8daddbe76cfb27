import { HttpError } from '../../engines/errors.ts'

export interface BodyBudgetOptions {
  /** Maximum bytes of large bodies in memory, as far as they are known beforehand. */
  maxBytes: number
  /** Maximum requests that wait; further ones are refused at once. */
  maxWaiting: number
  /** Longest wait, in milliseconds. */
  maxWaitMs: number
}

/** Room for one large body. */
export interface BodyLease {
  /**
   * Says how many bytes there are, once it is known. They are there already, so nothing waits when they are more: who
   * comes next does.
   */
  resize (bytes: number): void
  release (): void
}

interface Waiting {
  bytes: number
  grant: () => void
}

/**
 * Bounds the memory of large bodies: a request that gets no room is not read further, so that the bytes wait with the
 * client. First come, first served.
 */
export class BodyBudget {
  readonly #options: BodyBudgetOptions
  readonly #waiting: Waiting[] = []
  #used = 0

  constructor (options: BodyBudgetOptions) {
    this.#options = options
  }

  /** Bytes in use. */
  get used (): number {
    return this.#used
  }

  /** @throws {HttpError} 503 `overloaded` when too many wait, or when none left in time. */
  async acquire (wanted: number): Promise<BodyLease> {
    // A body larger than the whole budget would wait indefinitely; alone it is let through.
    const bytes = Math.min(wanted, this.#options.maxBytes)
    if (this.#waiting.length > 0 || this.#used + bytes > this.#options.maxBytes) await this.#wait(bytes)
    else this.#used += bytes
    return this.#createLease(bytes)
  }

  #wait (bytes: number): Promise<void> {
    if (this.#waiting.length >= this.#options.maxWaiting) return Promise.reject(overloaded())
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(overloaded())
        this.#grant()
      }, this.#options.maxWaitMs)
      const waiting = {
        bytes,
        grant: (): void => {
          clearTimeout(timer)
          resolve()
        }
      }
      this.#waiting.push(waiting)
    })
  }

  #createLease (granted: number): BodyLease {
    let held = granted
    let isHeld = true
    const resize = (bytes: number): void => {
      if (!isHeld) return
      this.#used += bytes - held
      held = bytes
      this.#grant()
    }
    return {
      resize,
      release () {
        resize(0)
        isHeld = false
      }
    }
  }

  #grant (): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#used + next.bytes > this.#options.maxBytes) return
      this.#waiting.shift()
      this.#used += next.bytes
      next.grant()
    }
  }
}

function overloaded (): HttpError {
  return new HttpError(503, 'server_error', 'overloaded', 'Too many large requests. Try again later.')
}
