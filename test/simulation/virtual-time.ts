/**
 * The clock, the timers and the chance of a simulated world, in place of those of Node. To be imported before anything
 * that keeps one of them for itself; from then on nothing in this process waits for real.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import crypto from 'node:crypto'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import timersPromises from 'node:timers/promises'
import zlib from 'node:zlib'
import { createRandom, type Random } from '../support/random.ts'
import { WORLD_BEGAN_AT } from './world-constants.ts'

const realImmediate = setImmediate
const RealDate = Date
const realNow = performance.now.bind(performance)

/** Monotonic clock of a world at its begin: `performance.now()` of a process is never 0. */
const MONOTONIC_OFFSET_MS = 10_000

const owners = new AsyncLocalStorage<VirtualProcess | null>()

/** A process of the simulated system: it stands still while it is frozen, and for ever once it is dead. */
export class VirtualProcess {
  readonly name: string
  /** Virtual time until which nothing of it runs. */
  frozenUntil = 0
  isDead = false

  constructor (name: string) {
    this.name = name
  }
}

/** In whose name servers work. */
const SERVER = new VirtualProcess('server')

interface Task {
  at: number
  /** When it would have run if its process had not been frozen. */
  readonly due: number
  owner: VirtualProcess | null
  run: () => void
  isCancelled: boolean
}

/** @returns the process that runs now; null: none of the simulated ones. */
export function ownerOfNow (): VirtualProcess | null {
  return owners.getStore() ?? null
}

/** The world of the run under way. */
let current: World | null = null

/** A world: tasks in the order of their time, and a source of chance. */
export class World {
  now = 0
  readonly random: Random
  /** What happened, in order; equal for equal seeds. */
  readonly trace: string[] = []
  #queue: Task[] = []
  #ended = false

  constructor (seed: number) {
    this.random = createRandom(seed)
    current = this
  }

  /** A number of `[from, to)`. */
  between (from: number, to: number): number {
    return from + this.random() * (to - from)
  }

  chance (probability: number): boolean {
    return this.random() < probability
  }

  log (text: string): void {
    this.trace.push(`${this.now.toFixed(3)} ${owners.getStore()?.name ?? '-'} ${text}`)
  }

  /** Runs `work` as the process does: its timers are the process's. */
  as<T> (owner: VirtualProcess, work: () => T): T {
    return owners.run(owner, work)
  }

  /** Runs `work` after a time, unless its owner has died by then. Returns how to cancel it. */
  after (ms: number, work: () => void, owner: VirtualProcess | null = owners.getStore() ?? null): () => void {
    const due = this.now + Math.max(0, ms)
    const task: Task = { at: due, due, owner, run: work, isCancelled: false }
    this.#enqueue(task)
    return () => { task.isCancelled = true }
  }

  /** The same for a server, whose work is over when it returns, so that nobody needs a turn. */
  serve (ms: number, work: () => void): void {
    this.after(ms, work, SERVER)
  }

  /** Lets virtual time pass until `isDone` says so after a task, or the time is over. @returns whether it is done. */
  async run (untilMs: number, isDone: () => boolean = () => false): Promise<boolean> {
    // Not within a microtask: there nobody else has a turn.
    return await new Promise<boolean>((resolve) => {
      realImmediate(() => resolve(Promise.try(() => this.#runNow(untilMs, isDone))))
    })
  }

  #runNow (untilMs: number, isDone: () => boolean): boolean {
    takeTurns()
    while (!this.#ended && !isDone()) {
      const task = this.#queue.at(-1)
      if (task === undefined || task.at > untilMs) break
      this.#queue.pop()
      const owner = task.owner === SERVER ? null : task.owner
      if (task.isCancelled || owner?.isDead === true) continue
      if (owner !== null && owner.frozenUntil > task.at) {
        task.at = owner.frozenUntil
        this.#enqueue(task)
        continue
      }
      this.now = Math.max(this.now, task.at)
      if (ownerOfNow() !== owner) owners.enterWith(owner)
      task.run()
      if (task.owner !== SERVER) takeTurns()
    }
    if (isDone()) return true
    this.now = Math.max(this.now, untilMs)
    return false
  }

  /**
   * Puts a task behind those that are not later; what a frozen process has missed runs in its order, then. The next one
   * is the last of the queue, as most tasks are soon due.
   */
  #enqueue (task: Task): void {
    let from = 0
    for (let to = this.#queue.length; from < to;) {
      const middle = (from + to) >> 1
      const { at, due } = this.#queue[middle]!
      if (at > task.at || (at === task.at && due > task.due)) from = middle + 1
      else to = middle
    }
    this.#queue.splice(from, 0, task)
  }

  /** Nothing of this world runs any more. */
  end (): void {
    this.#ended = true
    this.#queue = []
    if (current === this) current = null
  }
}

/** Lets everything run that waits for nothing but its turn: microtasks, and what they put behind themselves. */
const takeTurns = (process as unknown as { _tickCallback: () => void })._tickCallback

type Callback = (...args: any[]) => void

/** In a world that has ended no timer fires. */
class VirtualTimer {
  #cancel: (() => void) | undefined

  constructor (run: Callback, ms: unknown, args: unknown[] = [], isRepeated = false) {
    // A millisecond at least, as in Node.
    const delayMs = Number(ms) >= 1 ? Number(ms) : 1
    const fire = (): void => {
      if (isRepeated) this.#cancel = current?.after(delayMs, fire)
      run(...args)
    }
    this.#cancel = current?.after(delayMs, fire)
  }

  close (): void { this.#cancel?.() }
  ref (): this { return this }
  unref (): this { return this }
}

class VirtualDate extends RealDate {
  constructor (...args: unknown[]) {
    super(...(args.length === 0 ? [VirtualDate.now()] : args) as [number])
  }

  static override now (): number {
    return current === null ? RealDate.now() : WORLD_BEGAN_AT + Math.floor(current.now)
  }
}

function clearVirtual (timer: unknown): void {
  if (timer instanceof VirtualTimer) timer.close()
}

function drawInteger (from: number, to: number): number {
  return Math.floor(from + Math.random() * (to - from))
}

/** Calls of zlib that use threads: their order would be that of the machine. */
function callNow (run: (data: Buffer) => Buffer) {
  return (data: Buffer, _options: unknown, done: Callback) =>
    process.nextTick(done, null, run(Buffer.from(data.buffer, data.byteOffset, data.byteLength)))
}

/** Magic number, and a descriptor: the size of the content follows, in four bytes. */
const ZSTD_FRAME = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0])

/** A frame of zstd with one block that is stored as it is: compressing would cost more than most of a world. */
function storeFrame (content: Buffer | string): Buffer {
  const data = Buffer.from(content)
  const sizes = Buffer.alloc(8)
  sizes.writeUInt32LE(data.length)
  sizes.writeUInt32LE(data.length << 3 | 1, 4)
  return Buffer.concat([ZSTD_FRAME, sizes.subarray(0, 7), data])
}

/** @param frames  As `storeFrame` makes them. */
function readFrames (frames: Buffer): Buffer {
  if (frames.length === 0) return frames
  const from = ZSTD_FRAME.length + 7
  const to = from + frames.readUInt32LE(ZSTD_FRAME.length)
  return Buffer.concat([frames.subarray(from, to), readFrames(frames.subarray(to))])
}

const chance = Math.random
Object.assign(globalThis, {
  Date: VirtualDate,
  setTimeout: (run: Callback, ms?: number, ...args: unknown[]) => new VirtualTimer(run, ms, args),
  setInterval: (run: Callback, ms?: number, ...args: unknown[]) => new VirtualTimer(run, ms, args, true),
  setImmediate: (run: Callback, ...args: unknown[]) => { current?.after(0, () => run(...args)) },
  clearTimeout: clearVirtual,
  clearInterval: clearVirtual
})
Math.random = () => current === null ? chance() : current.random()
performance.now = () => current === null ? realNow() : MONOTONIC_OFFSET_MS + current.now
Object.assign(timersPromises, {
  setTimeout: async (ms?: number, value?: unknown, { signal }: { signal?: AbortSignal } = {}) => {
    signal?.throwIfAborted()
    await new Promise<void>((resolve, reject) => {
      const timer = new VirtualTimer(resolve, ms)
      signal?.addEventListener('abort', () => { timer.close(); reject(new Error('aborted')) })
    })
    return value
  }
})
Object.assign(crypto, {
  randomInt: (low: number, high?: number) => high === undefined ? drawInteger(0, low) : drawInteger(low, high),
  randomBytes: (size: number) => Buffer.from(Array.from({ length: size }, () => drawInteger(0, 256)))
})
Object.assign(zlib, {
  zstdCompressSync: storeFrame,
  zstdDecompressSync: readFrames,
  zstdCompress: callNow(storeFrame),
  zstdDecompress: callNow(readFrames)
})
// Each simulated process is on a machine of its own: no process can see whether another one is gone.
Object.assign(fs, { readlinkSync: () => { throw new Error('not on this machine') } })
syncBuiltinESMExports()
