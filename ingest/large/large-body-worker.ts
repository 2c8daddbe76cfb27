import { parentPort, type MessagePort } from 'node:worker_threads'
import { HttpError } from '../../platform/errors.ts'
import { createPropertyReader } from '../normalise/read-properties.ts'
import { createNormaliseEvent } from '../normalise/normalise-event.ts'
import { createTakeEvent, type TakeEvent } from '../capture/take-event.ts'
import {
  type FromWorker, type KeyAnswer, type LargeBodyJob, type LargeBodyResult, type RefusedBody, type ToWorker
} from './large-body-job.ts'
import { takeLargeBody } from './take-large-body.ts'

/**
 * The thread that takes large bodies, one at a time. Each job is a short conversation:
 *
 * ```
 * main: job --> worker: ask (which project?) --> main: key | noKey --> worker: done | refused | ended
 * ```
 */
const port = parentPort as MessagePort
const readProperties = createPropertyReader(Date.now)
let onKey: ((answer: KeyAnswer | null) => void) | undefined

port.on('message', (message: ToWorker) => {
  if (message.kind === 'key') onKey?.(message.answer)
  else if (message.kind === 'noKey') onKey?.(null)
  else void run(message.job)
})

async function run (job: LargeBodyJob): Promise<void> {
  try {
    const result = await takeLargeBody(job, createTakeEventOf(job), async (question) => {
      const { promise, resolve } = Promise.withResolvers<KeyAnswer | null>()
      onKey = resolve
      send({ kind: 'ask', question })
      return await promise
    })
    if (result === null) send({ kind: 'ended' })
    else send({ kind: 'done', result }, transferable(result))
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    send({ kind: 'refused', error: toRefusal(error) })
  }
}

function createTakeEventOf ({ maxEventBytes }: LargeBodyJob): TakeEvent {
  const normaliseEvent = createNormaliseEvent({ readProperties, maxEventBytes: () => maxEventBytes })
  return createTakeEvent(normaliseEvent, (error) => send({ kind: 'unexpected', error }))
}

function send (message: FromWorker, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer)
}

function transferable ({ frames }: LargeBodyResult): ArrayBuffer[] {
  return frames.map(({ payload }) => payload.buffer as ArrayBuffer)
}

function toRefusal ({ status, type, code, detail, attr }: HttpError): RefusedBody {
  return { status, type, code, detail, attr }
}
