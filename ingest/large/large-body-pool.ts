import path from 'node:path'
import { Worker } from 'node:worker_threads'
import type { CookielessSalts } from '../normalise/cookieless-salts.ts'
import { errorCode, HttpError } from '../../engines/errors.ts'
import type { BodyHints } from '../../engines/body/decode-body.ts'
import type { Logger } from '../../platform/logger.ts'
import type { GeoipData } from '../../platform/geoip-file.ts'
import type { FingerprintKey } from '../../schema/wire/frame-message.ts'
import type { EventClass } from '../../schema/wire/streams.ts'
import type { Admission, Admit, BodyRequest, Credentials, TakenBody } from '../capture/take-parsed-body.ts'
import type { EncodedFrame } from '../frames/frame-encoder.ts'
import { definitionsOf, type ProjectSchemas, type SchemaDefinition } from '../enforcement/active-schemas.ts'
import { definitionsOfRules, type KeyedRules, type RuleDefinitions } from '../enforcement/active-rules.ts'
import type { KnownNames, NameLimits } from '../normalise/described-names.ts'
import type { ReadKnownNames } from '../normalise/known-names.ts'
import type { OutgoingMessage } from '../publish/acknowledged-publisher.ts'
import type { JoinedUpdates } from '../publish/persons-partitions.ts'

export interface LargeBodyPoolOptions {
  /** Maximum bodies processed at a time. The last thread is kept for a project that has none. */
  threads: number
  /** Each thread counts the names of its bodies. */
  names: NameLimits
  /** Reads the known names of a project beyond these limits, for a thread. */
  readKnownNames: ReadKnownNames
  logger: Logger
  /** Called when an event caused an unexpected error. */
  onUnexpected: (error: unknown) => void
}

/** Worker threads for large bodies, so that decoding them never delays small requests. */
export interface LargeBodyPool {
  /**
   * Takes a body through all steps but publishing; waits for a free thread. Its chunks are gone afterwards.
   *
   * Whose body it is shows when its key is read. It is postponed then if its project has all threads that it may have:
   * run it again, with that project.
   *
   * @param hooks.admit       Called in this thread, which has the keys.
   * @param hooks.onInflated  Called with the size of the fully decoded body.
   * @throws {HttpError} for errors of the body or its key; 413 when it takes more memory than a thread
   *   has; 503 when the thread died on it.
   */
  run (job: LargeBodyJob, hooks: LargeBodyHooks): Promise<LargeBodyResult | PostponedBody>
  close (): Promise<void>
}

/** What happens here while a thread takes a body. */
export interface LargeBodyHooks {
  admit: Admit
  onInflated?: (bytes: number) => void
  /** Whose body it is: another sender's goes before a second one of the same. */
  sender?: string
  /** And of one sender, another key's. */
  key?: string
  /** Known when the body was postponed. */
  projectId?: number | null
}

/** A body of which nothing was taken yet. */
export interface PostponedBody {
  chunks: Uint8Array[]
  /** Null until its key was read. */
  projectId: number | null
}

/** What a worker thread needs to take a large body. */
export interface LargeBodyJob extends BodyRequest {
  /** The raw body in pieces, handed over without copying. */
  chunks: Uint8Array[]
  hints: BodyHints
  maxDecompressedBytes: number
  maxEventBytes: number
  partitions: number
  /** The secret of fingerprints; null while it is not known. */
  fingerprintKey: FingerprintKey | null
  cookielessSalts: CookielessSalts
  /** The GeoIP file, if any. */
  geoip: GeoipData | null
}

/** Everything that came of a body. Nothing of it is published before all of the body proved good. */
export interface LargeBodyResult {
  taken: TakenBody
  frames: RoutedFrame[]
  updates: JoinedUpdates[]
  /** Events that do not meet their schema, as dead letters. */
  letters: OutgoingMessage[]
}

/** A frame and where it goes. */
export interface RoutedFrame extends EncodedFrame {
  eventClass: EventClass
  partition: number
}

/** The same ending as this file has: `.ts`, in the package `.js`. */
const WORKER = new URL(`large-body-worker${path.extname(import.meta.filename)}`, import.meta.url)

/** A value for a thread, or a marker that it has it, or that there is no value. */
export type Given<T> = T | 'known' | 'none'

/** Main thread to worker. */
export type ToWorker =
  | { kind: 'job', job: LargeBodyJob }
  /** Schemas and rules when the thread does not have those of the project; functions do not cross threads. */
  | { kind: 'admitted', admission: Admission, schemas: Given<SchemaDefinition[]>, rules: Given<RuleDefinitions> }
  /** The key was refused, or it is the turn of another project: the job ends. */
  | { kind: 'rejected' } | { kind: 'postponed' }
  /** What `names` asked for. */
  | { kind: 'known', projectId: number, known: KnownNames }

/** Worker to main thread. */
export type FromWorker =
  | { kind: 'inflated', bytes: number }
  | { kind: 'admit', credentials: Credentials }
  | { kind: 'done', result: LargeBodyResult }
  | { kind: 'refused', error: RefusedBody }
  /** After `rejected`. */
  | { kind: 'ended' }
  /** After `postponed`: the body as it came. */
  | { kind: 'returned', bytes: Uint8Array }
  /** An event could not be stored because of a bug; the job goes on. */
  | { kind: 'unexpected', error: unknown }
  /** A project is beyond its limits of names: which of them are known? */
  | { kind: 'names', projectId: number }

/** An `HttpError` in a form that crosses threads. */
export type RefusedBody = Pick<HttpError, 'status' | 'type' | 'code' | 'detail' | 'attr'>

/** A body takes far less, because it is parsed in pieces; one that needs more must not take the process down. */
const MAX_HEAP_MB = 512

interface Task {
  job: LargeBodyJob
  hooks: LargeBodyHooks
  /** Null until its key was read. */
  projectId: number | null
  resolve: (result: LargeBodyResult | PostponedBody) => void
  reject: (error: unknown) => void
}

/** A thread, and the task it works on. */
interface Thread {
  worker: Worker
  task: Task | null
  /** Its heap was too small for the body. */
  isOutOfMemory: boolean
  /** The schemas and rules that it was given, by project. */
  schemas: Map<number, ProjectSchemas>
  rules: Map<number, KeyedRules>
}

export function createLargeBodyPool (options: LargeBodyPoolOptions): LargeBodyPool {
  const { threads: maxThreads, logger } = options
  const threads = new Set<Thread>()
  const waiting: Task[] = []
  /** Threads that one project may have. */
  const share = Math.max(maxThreads - 1, 1)
  const threadsOf = (id: number): number => [...threads].filter(({ task }) => task?.projectId === id).length
  let last: LargeBodyHooks | undefined

  return {
    run: async (job, hooks) => await new Promise((resolve, reject) => {
      waiting.push({ job, hooks, projectId: hooks.projectId ?? null, resolve, reject })
      startNext()
    }),
    async close () {
      await Promise.all([...threads].map(async ({ worker }) => await worker.terminate()))
    }
  }

  function startNext (): void {
    const able = waiting.filter(({ projectId }) => projectId === null || threadsOf(projectId) < share)
    const task = able.find(({ hooks }) => hooks.sender !== last?.sender) ??
      able.find(({ hooks }) => hooks.key !== last?.key) ?? able[0]
    if (task === undefined) return
    const idle = [...threads].find(({ task }) => task === null)
    const thread = idle ?? (threads.size < maxThreads ? startThread() : undefined)
    if (thread === undefined) return
    waiting.splice(waiting.indexOf(task), 1)
    last = task.hooks
    thread.task = task
    send(thread, { kind: 'job', job: task.job }, task.job.chunks.map(({ buffer }) => buffer as ArrayBuffer))
  }

  function startThread (): Thread {
    const worker = new Worker(WORKER, {
      name: 'large bodies', workerData: options.names, resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB }
    })
    const thread: Thread = { worker, task: null, isOutOfMemory: false, schemas: new Map(), rules: new Map() }
    threads.add(thread)
    worker.on('message', (message: FromWorker) => onMessage(thread, message))
    worker.on('error', (err) => {
      logger.error({ err }, 'a worker thread for large bodies failed')
      thread.isOutOfMemory = errorCode(err) === 'ERR_WORKER_OUT_OF_MEMORY'
    })
    worker.on('exit', () => {
      threads.delete(thread)
      finish(thread, (task) => task.reject(explainEnd(thread)))
    })
    // A process with nothing else to do may end.
    worker.unref()
    return thread
  }

  function onMessage (thread: Thread, message: FromWorker): void {
    switch (message.kind) {
      case 'inflated': return thread.task?.hooks.onInflated?.(message.bytes)
      case 'admit':
        void answerAdmission(thread, message.credentials, (projectId) => threadsOf(projectId) <= share)
        return
      case 'done': return finish(thread, (task) => task.resolve(message.result))
      case 'returned': return finish(thread, (task) => task.resolve({ chunks: [message.bytes], projectId: task.projectId }))
      case 'refused': return finish(thread, (task) => task.reject(toError(message.error)))
      // The task was rejected when its key was.
      case 'ended': return finish(thread, () => {})
      case 'names':
        void options.readKnownNames(message.projectId).then((known) => {
          if (known !== null) send(thread, { kind: 'known', projectId: message.projectId, known })
        })
        return
      case 'unexpected': return options.onUnexpected(message.error)
    }
  }

  function finish (thread: Thread, complete: (task: Task) => void): void {
    const task = thread.task
    thread.task = null
    if (task !== null) complete(task)
    startNext()
  }
}

/** Sent again, a body that takes too much memory would only take it again. */
function explainEnd ({ isOutOfMemory }: Thread): HttpError {
  return isOutOfMemory
    ? new HttpError(413, 'validation_error', 'body_too_large', `The body takes more than ${MAX_HEAP_MB} MB of memory.`)
    : new HttpError(503, 'server_error', 'overloaded', 'The request could not be processed. Try again.')
}

/** Asks the main thread's keys on behalf of a thread. */
async function answerAdmission (
  thread: Thread, credentials: Credentials, isWithinShare: (projectId: number) => boolean
): Promise<void> {
  const task = thread.task
  if (task === null) return
  try {
    const admission = await task.hooks.admit(credentials)
    task.projectId = admission.project.id
    if (isWithinShare(task.projectId)) send(thread, { kind: 'admitted', ...withoutChecks(thread, admission) })
    else send(thread, { kind: 'postponed' })
  } catch (error) {
    task.reject(error)
    send(thread, { kind: 'rejected' })
  }
}

/** The admission without compiled checks, and the definitions that the thread lacks. */
function withoutChecks (thread: Thread, admission: Admission): Omit<Extract<ToWorker, { kind: 'admitted' }>, 'kind'> {
  const { schemas, rules, ...project } = admission.project
  return {
    admission: { ...admission, project },
    schemas: give(thread.schemas, project.id, schemas, definitionsOf),
    rules: give(thread.rules, project.id, rules, definitionsOfRules)
  }
}

function give<T, D> (given: Map<number, T>, projectId: number, set: T | undefined, define: (set: T) => D): Given<D> {
  if (set === undefined) return 'none'
  if (given.get(projectId) === set) return 'known'
  given.set(projectId, set)
  return define(set)
}

function send ({ worker }: Thread, message: ToWorker, transfer: ArrayBuffer[] = []): void {
  worker.postMessage(message, transfer)
}

function toError ({ status, type, code, detail, attr }: RefusedBody): HttpError {
  return new HttpError(status, type, code, detail, attr === null ? {} : { attr })
}
