import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { HttpError } from '../../engines/errors.ts'
import { compileDefinitions, type ProjectSchemas } from '../enforcement/active-schemas.ts'
import { compileRules, type KeyedRules } from '../enforcement/active-rules.ts'
import { type LocateAddress, openGeoip } from '../../engines/enrichment/geoip.ts'
import type { GeoipData } from '../../platform/geoip-file.ts'
import { unwrapBody } from '../../engines/body/decode-body.ts'
import { limitsOfBody } from '../../engines/body/value-limits.ts'
import type { FingerprintKey } from '../../schema/wire/frame-message.ts'
import type { EventClass } from '../../schema/wire/streams.ts'
import type { EventRow, RequestContext, Taken } from '../event.ts'
import { findEventsUnparsed } from '../capture/find-events.ts'
import { type Admission, type Credentials, type EventSink, takeBody } from '../capture/take-parsed-body.ts'
import { createTakeEvent, type TakeEvent } from '../capture/take-event.ts'
import { FrameEncoder, isFull, needsNewMessage } from '../frames/frame-encoder.ts'
import { createTakeCookieless } from '../normalise/cookieless.ts'
import { createEnrich, createIsBot } from '../normalise/enrich.ts'
import { DescribedNames, type NameLimits } from '../normalise/described-names.ts'
import { createNormaliseEvent } from '../normalise/normalise-event.ts'
import { createPropertyReader } from '../normalise/read-properties.ts'
import { routeRow } from '../publish/event-partitions.ts'
import type { OutgoingMessage } from '../publish/acknowledged-publisher.ts'
import { UpdateJoiner } from '../publish/persons-partitions.ts'
import { type BuildLetter, createBuildLetter } from '../publish/quarantine.ts'
import type { FromWorker, LargeBodyJob, RoutedFrame, ToWorker } from './large-body-pool.ts'

/**
 * The thread that takes large bodies, one at a time, with the steps of small ones (`takeBody`). Each job is a short
 * conversation:
 *
 * ```
 * main: job --> worker: inflated, admit --> main: admitted | rejected | postponed
 *           --> worker: done | refused | ended | returned
 * ```
 */
const port = parentPort as MessagePort

/** The main thread has answered the request already, or keeps it for later. */
class RejectedError extends Error {}

const names = new DescribedNames(workerData as NameLimits, {
  now: Date.now, askKnown: (projectId) => send({ kind: 'names', projectId })
})
const readProperties = createPropertyReader(Date.now, names)
let onAdmission: ((admission: Admission | RejectedError) => void) | undefined

port.on('message', (message: ToWorker) => {
  if (message.kind === 'admitted') onAdmission?.(withChecks(message))
  else if (message.kind === 'rejected' || message.kind === 'postponed') onAdmission?.(new RejectedError(message.kind))
  else if (message.kind === 'known') names.learn(message.projectId, message.known)
  else void run(message.job)
})

/** The schemas and rules of projects, compiled in this thread. */
const compiledSchemas = new Map<number, ProjectSchemas>()
const compiledRules = new Map<number, KeyedRules>()

function withChecks ({ admission, schemas, rules }: Extract<ToWorker, { kind: 'admitted' }>): Admission {
  const project = { ...admission.project }
  if (schemas !== 'none' && schemas !== 'known') compiledSchemas.set(project.id, compileDefinitions(schemas))
  if (rules !== 'none' && rules !== 'known') compiledRules.set(project.id, compileRules(rules, project.id))
  if (schemas !== 'none') project.schemas = compiledSchemas.get(project.id)!
  if (rules !== 'none') project.rules = compiledRules.get(project.id)!
  return { ...admission, project }
}

async function run (job: LargeBodyJob): Promise<void> {
  const bytes = Buffer.concat(job.chunks.splice(0))
  try {
    const json = unwrapBody(bytes, job.hints, job.maxDecompressedBytes)
    send({ kind: 'inflated', bytes: json.length })
    const sink = new FrameSink(job)
    const takeEvent = createTakeEventOf(job, sink)
    const body = findEventsUnparsed(json, limitsOfBody(bytes.length))
    const taken = await takeBody(body, job, { admit, takeEvent, sink })
    const frames = sink.finish()
    const updates = sink.updates.finish()
    const result = { taken, frames, updates, letters: sink.letters }
    send({ kind: 'done', result }, [...frames, ...updates].map(({ payload }) => payload.buffer as ArrayBuffer))
  } catch (error) {
    if (error instanceof RejectedError && error.message === 'postponed') giveBack(bytes)
    else if (error instanceof RejectedError) send({ kind: 'ended' })
    else if (!(error instanceof HttpError)) throw error
    else {
      const { status, type, code, detail, attr } = error
      send({ kind: 'refused', error: { status, type, code, detail, attr } })
    }
  }
}

function giveBack (bytes: Buffer): void {
  const owned = Buffer.allocUnsafeSlow(bytes.length)
  owned.set(bytes)
  send({ kind: 'returned', bytes: owned }, [owned.buffer])
}

/** Asks the main thread, which has the keys. */
async function admit ({ apiKey, projectId }: Credentials): Promise<Admission> {
  const { promise, resolve } = Promise.withResolvers<Admission | RejectedError>()
  onAdmission = resolve
  send({ kind: 'admit', credentials: { apiKey, projectId } })
  const admission = await promise
  if (admission instanceof RejectedError) throw admission
  return admission
}

/** The file of places that this thread has opened. */
let geoip: { version: number, locate: LocateAddress } | null = null

function locateBy (data: GeoipData | null): LocateAddress | null {
  if (data === null) return null
  if (geoip?.version !== data.version) geoip = { version: data.version, locate: openGeoip(Buffer.from(data.bytes)) }
  return geoip.locate
}

const isBot = createIsBot()

function createTakeEventOf (
  { maxEventBytes, cookielessSalts, geoip }: LargeBodyJob, { isAnnounced }: FrameSink
): TakeEvent {
  const takeCookieless = createTakeCookieless(() => cookielessSalts)
  const enrich = createEnrich({ isBot, locate: locateBy(geoip) })
  const normaliseEvent = createNormaliseEvent({
    readProperties, takeCookieless, enrich, maxEventBytes: () => maxEventBytes
  })
  return createTakeEvent({
    normaliseEvent, isAnnounced, maxPayloadBytes: () => maxEventBytes, onUnexpected: (error) => send({ kind: 'unexpected', error })
  })
}

/** The most that `MILLRACE_MAX_GROUP_TYPES` may be. */
const MAX_GROUP_TYPES = 10_000

/** Collects the events of one body into frames of their own, which are published when all of the body proved good. */
class FrameSink implements EventSink {
  readonly updates = new UpdateJoiner()
  readonly letters: OutgoingMessage[] = []
  readonly #buildLetter: BuildLetter
  readonly #frames: RoutedFrame[] = []
  readonly #partitions: number
  readonly #fingerprintKey: FingerprintKey | null
  readonly #open = new Map<string, { eventClass: EventClass, partition: number, encoder: FrameEncoder }>()
  readonly #announced = new Set<string>()

  constructor ({ partitions, fingerprintKey }: LargeBodyJob) {
    this.#partitions = partitions
    this.#fingerprintKey = fingerprintKey
    this.#buildLetter = createBuildLetter(partitions, () => fingerprintKey)
  }

  add (event: Taken, context: RequestContext): void {
    if (event.kind === 'stored') this.#append(event.row, context)
    else this.letters.push(this.#buildLetter(event, context))
    for (const update of event.updates) this.updates.append(update)
  }

  #append (row: EventRow, context: RequestContext): void {
    const { eventClass, partition } = routeRow(row, context, this.#partitions)
    const key = `${eventClass}.${partition}`
    let open = this.#open.get(key)
    if (open === undefined) {
      open = { eventClass, partition, encoder: new FrameEncoder(() => this.#fingerprintKey, eventClass) }
      this.#open.set(key, open)
    }
    if (needsNewMessage(row) && open.encoder.rows > 0) this.#take(open)
    open.encoder.append(row)
    if (isFull(open.encoder)) this.#take(open)
  }

  /** Once per body is enough: the main thread knows what was announced before, but asking it for each event is slow. */
  isAnnounced = (projectId: number, groupType: string): boolean => {
    const key = `${projectId}:${groupType}`
    // A project has no more: those that the body names further on would get no index.
    if (this.#announced.has(key) || this.#announced.size === MAX_GROUP_TYPES) return true
    this.#announced.add(key)
    return false
  }

  /** Closes the open frames, and returns all of them. */
  finish (): RoutedFrame[] {
    for (const open of this.#open.values()) {
      if (open.encoder.rows > 0) this.#take(open)
    }
    return this.#frames
  }

  #take (
    { eventClass, partition, encoder }: { eventClass: EventClass, partition: number, encoder: FrameEncoder }
  ): void {
    this.#frames.push({ ...encoder.take(), eventClass, partition })
  }
}

function send (message: FromWorker, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer)
}
