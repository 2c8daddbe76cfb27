import { Worker } from 'node:worker_threads'
import { HttpError, type HttpErrorType } from '../../platform/errors.ts'
import { type Logger } from '../../platform/logger.ts'
import { type BodyHints } from '../../platform/http-body/decode-body.ts'
import { type FingerprintKey } from '../../schema/frame-message.ts'
import { type EventClass } from '../../schema/streams.ts'
import { type DropReason } from '../capture/ingest-counts.ts'
import { type EncodedFrame } from '../encode/frame-encoder.ts'
import { type EncodedUpdate } from '../publish/persons-partitions.ts'
import { type Project } from '../../platform/keys/read-keys.ts'

export interface LargeBodyPoolOptions {
  /** Bodies worked on at the same time. */
  threads: number
  logger: Logger
  /** Told of a bug with an event. */
  onUnexpected: (error: unknown) => void
}

export type LookUpKey = (question: KeyQuestion) => Promise<KeyAnswer>

/** Worker threads for large bodies, so that decoding them never delays small requests. */
export interface LargeBodyPool {
  /**
   * Takes a body through all steps but publishing; waits for a free thread. Its chunks are gone afterwards.
   *
   * @throws {HttpError} what is wrong with the body or its key; 503 when the thread died on it.
   */
  run (job: LargeBodyJob, lookUpKey: LookUpKey): Promise<LargeBodyResult>
  close (): Promise<void>
}

/** A body takes far less, because it is parsed in pieces; one that needs more must not take the process down. */
const MAX_HEAP_MB = 512

interface Task {
  job: LargeBodyJob
  lookUpKey: LookUpKey
  resolve: (result: LargeBodyResult) => void
  reject: (error: unknown) => void
}

/** A thread, and what it is at. */
interface Thread {
  worker: Worker
  task: Task | null
}

export function createLargeBodyPool (options: LargeBodyPoolOptions): LargeBodyPool {
  const { threads: maxThreads, logger } = options
  const threads = new Set<Thread>()
  const waiting: Task[] = []

  return {
    run: async (job, lookUpKey) => await new Promise((resolve, reject) => {
      waiting.push({ job, lookUpKey, resolve, reject })
      startNext()
    }),
    async close () {
      await Promise.all([...threads].map(async ({ worker }) => await worker.terminate()))
    }
  }

  function startNext (): void {
    const thread = findIdle() ?? (threads.size < maxThreads ? startThread() : undefined)
    const task = thread === undefined ? undefined : waiting.shift()
    if (thread === undefined || task === undefined) return
    thread.task = task
    send(thread, { kind: 'job', job: task.job }, task.job.chunks.map(({ buffer }) => buffer as ArrayBuffer))
  }

  function findIdle (): Thread | undefined {
    for (const thread of threads) {
      if (thread.task === null) return thread
    }
    return undefined
  }

  function startThread (): Thread {
    const worker = new Worker(new URL('large-body-worker.ts', import.meta.url), {
      name: 'large bodies', resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB }
    })
    const thread: Thread = { worker, task: null }
    threads.add(thread)
    worker.on('message', (message: FromWorker) => onMessage(thread, message))
    worker.on('error', (err) => logger.error({ err }, 'a thread for large bodies failed'))
    worker.on('exit', () => {
      threads.delete(thread)
      finish(thread, (task) => task.reject(died()))
    })
    // A process with nothing else to do may end.
    worker.unref()
    return thread
  }

  function onMessage (thread: Thread, message: FromWorker): void {
    switch (message.kind) {
      case 'ask':
        void answerKey(thread, message.question)
        return
      case 'done': return finish(thread, (task) => task.resolve(message.result))
      case 'refused': return finish(thread, (task) => task.reject(toError(message.error)))
      // The task was rejected when its key was.
      case 'ended': return finish(thread, () => {})
      case 'unexpected': return options.onUnexpected(message.error)
    }
  }

  async function answerKey (thread: Thread, question: KeyQuestion): Promise<void> {
    const task = thread.task
    if (task === null) return
    try {
      send(thread, { kind: 'key', answer: await task.lookUpKey(question) })
    } catch (error) {
      task.reject(error)
      send(thread, { kind: 'noKey' })
    }
  }

  function finish (thread: Thread, settle: (task: Task) => void): void {
    const task = thread.task
    thread.task = null
    if (task !== null) settle(task)
    startNext()
  }
}

function send ({ worker }: Thread, message: ToWorker, transfer: ArrayBuffer[] = []): void {
  worker.postMessage(message, transfer)
}

function toError ({ status, type, code, detail, attr }: RefusedBody): HttpError {
  return new HttpError(status, type, code, detail, attr === null ? {} : { attr })
}

function died (): HttpError {
  return new HttpError(503, 'server_error', 'overloaded', 'The request could not be worked on. Try again.')
}

/** What a worker thread needs to take a large body through all steps but publishing. */
export interface LargeBodyJob {
  /** The raw body in pieces, handed over without copying. */
  chunks: Uint8Array[]
  hints: BodyHints
  query: Readonly<Record<string, unknown>>
  isEngage: boolean
  requestId: string
  receivedAt: number
  maxDecompressedBytes: number
  maxEventBytes: number
  partitions: number
  /** The secret of fingerprints; null while it is not known. */
  fingerprintKey: FingerprintKey | null
}

/** The key is looked up by the main thread, which has the keys. */
export interface KeyQuestion {
  apiKey: string
  projectId: unknown
}

export interface KeyAnswer {
  project: Project
  /** Address of the client; empty when it is not to be stored. */
  ip: string
}

/** A frame and where it goes. */
export interface RoutedFrame extends EncodedFrame {
  eventClass: EventClass
  partition: number
}

/** Everything that came of a body. Nothing of it is published before all of the body proved good. */
export interface LargeBodyResult {
  frames: RoutedFrame[]
  updates: EncodedUpdate[]
  received: number
  dropped: Partial<Record<DropReason, number>>
}

/** Main thread to worker. */
export type ToWorker =
  | { kind: 'job', job: LargeBodyJob }
  | { kind: 'key', answer: KeyAnswer }
  /** The key was refused: the job ends. */
  | { kind: 'noKey' }

/** Worker to main thread. */
export type FromWorker =
  | { kind: 'ask', question: KeyQuestion }
  | { kind: 'done', result: LargeBodyResult }
  | { kind: 'refused', error: RefusedBody }
  | { kind: 'ended' }
  /** An event could not be stored because of a bug; the job goes on. */
  | { kind: 'unexpected', error: unknown }

/** An `HttpError` in a form that crosses threads. */
export interface RefusedBody {
  status: number
  type: HttpErrorType
  code: string
  detail: string
  attr: string | null
}
