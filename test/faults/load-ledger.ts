/** What the clients know of one stretch of time. */
export interface LoadPhase {
  name: string
  acknowledged: number
  /** Requests without a 200. */
  retries: number
  /** Their statuses or error codes, and how often. */
  failures: Map<string, number>
  /** Longest time between two acknowledged batches that ended in it, in milliseconds. */
  longestStallMs: number
}

/**
 * What the clients know: every uuid that was sent, and whether and in which phase it was acknowledged. A run keeps
 * about 100 bytes an event.
 */
export class LoadLedger {
  /** Events given up after all tries. */
  givenUp = 0
  readonly phases: LoadPhase[] = []
  /** By uuid: index of the phase in which it was acknowledged; -1 when it never was. */
  readonly #uuids = new Map<string, number>()
  #lastAcknowledgedAt = performance.now()
  #acknowledged = 0

  constructor () {
    this.begin('start')
  }

  /** Begins the next period; later acknowledgements belong to it. */
  begin (name: string): LoadPhase {
    this.#countStall()
    const phase: LoadPhase = { name, acknowledged: 0, retries: 0, failures: new Map(), longestStallMs: 0 }
    this.phases.push(phase)
    return phase
  }

  get sentEvents (): number {
    return this.#uuids.size
  }

  get acknowledgedEvents (): number {
    return this.#acknowledged
  }

  /** A request got no 200. */
  failed (why: string): void {
    const { failures } = this.#phase
    this.#phase.retries++
    failures.set(why, (failures.get(why) ?? 0) + 1)
  }

  sent (uuids: readonly string[]): void {
    for (const uuid of uuids) this.#uuids.set(uuid, -1)
  }

  acknowledged (uuids: readonly string[]): void {
    this.#countStall()
    this.#lastAcknowledgedAt = performance.now()
    this.#phase.acknowledged += uuids.length
    this.#acknowledged += uuids.length
    for (const uuid of uuids) this.#uuids.set(uuid, this.phases.length - 1)
  }

  /** @returns the phase in which it was acknowledged, null when it never was, undefined when it was never sent. */
  phaseOf (uuid: string): LoadPhase | null | undefined {
    const index = this.#uuids.get(uuid)
    return index === undefined ? undefined : this.phases[index] ?? null
  }

  uuids (): Iterable<string> {
    return this.#uuids.keys()
  }

  get #phase (): LoadPhase {
    return this.phases.at(-1) as LoadPhase
  }

  #countStall (): void {
    const phase = this.phases.at(-1)
    if (phase === undefined) return
    phase.longestStallMs = Math.max(phase.longestStallMs, performance.now() - this.#lastAcknowledgedAt)
  }
}

/** For people: `3 times 503, 1 times ECONNRESET`. */
export function describeFailures ({ failures }: LoadPhase): string {
  return [...failures].map(([why, times]) => `${times} times ${why}`).join(', ')
}
