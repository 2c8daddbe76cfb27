import { type HttpErrorType } from '../../platform/errors.ts'
import { type BodyHints } from '../../platform/http-body/unwrap-body.ts'
import { type EventClass } from '../../schema/streams.ts'
import { type DropReason } from '../capture/drop-reason.ts'
import { type EncodedFrame } from '../encode/frame-encoder.ts'
import { type EncodedUpdate } from '../publish/persons-partitions.ts'
import { type Project } from '../capture/request-context.ts'

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
