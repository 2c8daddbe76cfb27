import { HttpError } from '../../engines/errors.ts'

export interface BodyBudgetOptions {
  /** Maximum bytes of large bodies in memory, as far as they are known beforehand. */
  maxBytes: number
  /** Of these, only for holders that have no body in memory: they wait for nobody who fills the rest. Default: 0. */
  reservedBytes?: number
  /** Maximum requests that wait; further ones are refused at once. */
  maxWaiting: number
  /** Longest wait, in milliseconds. */
  maxWaitMs: number
}

interface AcquireOptions {
  /** Owner of a reservation: all senders of a project, once known. Default: the sender. */
  holder?: string
  /** Aborted when the room is no longer wanted: the request leaves the queue. */
  gone?: AbortSignal
}

/** Room for one large body. */
export interface BodyLease {
  /**
   * Says how many bytes there are, once it is known. They are there already, so nothing waits when they are more: who
   * comes next does.
   */
  resize (bytes: number): void
  /** Sets the owner, once known. */
  assign (holder: string): void
  release (): void
}

interface Waiting {
  sender: string
  holder: string
  bytes: number
  grant: () => void
  refuse: () => void
}

/**
 * Bounds the memory of large bodies: a request that gets no room is not read further, so that the bytes wait with the
 * client. Holders take turns, and the senders of each; of one sender, first come, first served. When too many wait,
 * the last of the holder with the most is refused.
 */
export class BodyBudget {
  readonly #options: BodyBudgetOptions
  readonly #waiting: Waiting[] = []
  /** The turn in which each holder and sender was served last, since somebody waits. */
  readonly #turns = new Map<string, number>()
  #turn = 0
  /** Of the bodies in memory. */
  readonly #holders: string[] = []
  #used = 0

  constructor (options: BodyBudgetOptions) {
    this.#options = options
  }

  get used (): number {
    return this.#used
  }

  /**
   * @param sender  Whose body it is, as far as anything tells that before it is read; takes turns with others.
   * @throws {HttpError} 503 `overloaded` when too many wait, or when none left in time.
   */
  async acquire (wanted: number, sender = '', { holder = sender, gone }: AcquireOptions = {}): Promise<BodyLease> {
    // A body larger than the whole budget would wait indefinitely; alone it is let through.
    const bytes = Math.min(wanted, this.#options.maxBytes)
    await this.#wait({ bytes, sender, holder }, gone)
    const lease = this.#createLease(bytes, holder)
    // In the turn of the event loop that granted it, before the caller learns of the lease.
    if (gone?.aborted === true) lease.release()
    return lease
  }

  #wait (wanted: Omit<Waiting, 'grant' | 'refuse'>, gone: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        waiting.refuse()
        this.#grant()
      }
      const timer = setTimeout(giveUp, this.#options.maxWaitMs)
      gone?.addEventListener('abort', giveUp)
      const leave = (): void => {
        clearTimeout(timer)
        gone?.removeEventListener('abort', giveUp)
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
      }
      const waiting: Waiting = {
        ...wanted,
        grant: () => { leave(); resolve() },
        refuse: () => { leave(); reject(new HttpError(503, 'server_error', 'overloaded', 'Too many large requests. Try again later.')) }
      }
      this.#waiting.push(waiting)
      this.#grant()
      if (this.#waiting.length > this.#options.maxWaiting) this.#lastOfMost()?.refuse()
    })
  }

  /** The last that waits of the holder with the most. */
  #lastOfMost (): Waiting | undefined {
    const byHolder = Map.groupBy(this.#waiting, ({ holder }) => holder)
    return [...byHolder.values()].reduce((most, each) => each.length >= most.length ? each : most).at(-1)
  }

  #createLease (granted: number, first: string): BodyLease {
    let holder = first
    let held = granted
    let isHeld = true
    const resize = (bytes: number): void => {
      if (!isHeld) return
      this.#used += bytes - held
      held = bytes
      this.#grant()
    }
    const leave = (): void => { this.#holders.splice(this.#holders.indexOf(holder), 1) }
    return {
      resize,
      assign: (other) => {
        if (!isHeld) return
        leave()
        this.#holders.push(holder = other)
      },
      release: () => {
        if (isHeld) leave()
        resize(0)
        isHeld = false
      }
    }
  }

  /** The first of each sender, unless it would need room reserved for others. */
  #candidates (): Waiting[] {
    const unreserved = this.#options.maxBytes - (this.#options.reservedBytes ?? 0)
    return [...Map.groupBy(this.#waiting, ({ sender }) => sender).values()].flatMap((own) => own.slice(0, 1))
      .filter(({ holder, bytes }) => !this.#holders.includes(holder) || this.#used + bytes <= unreserved)
  }

  #grant (): void {
    const turnOf = (name: string): number => this.#turns.get(name) ?? 0
    while (this.#waiting.length > 0) {
      const [next] = this.#candidates()
        .sort((a, b) => turnOf(a.holder) - turnOf(b.holder) || turnOf(a.sender) - turnOf(b.sender))
      if (next === undefined || this.#used + next.bytes > this.#options.maxBytes) return
      this.#used += next.bytes
      this.#holders.push(next.holder)
      if (this.#turns.size > this.#options.maxWaiting) this.#turns.clear()
      this.#turns.set(next.sender, ++this.#turn).set(next.holder, this.#turn)
      next.grant()
    }
    this.#turns.clear()
  }
}
