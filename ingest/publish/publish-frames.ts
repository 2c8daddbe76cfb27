import { eventsSubject, type EventClass } from '../../schema/streams.ts'
import { type EncodedFrame } from '../encode/frame-encoder.ts'
import { frameHeaders } from './group-commit.ts'
import { type Publish } from './outgoing-message.ts'

/** Frames of large bodies on their way at a time, so that those of small requests are not stuck behind megabytes. */
const WINDOW = 4

export type PublishFrames = (
  frames: readonly (EncodedFrame & { eventClass: EventClass, partition: number })[], requestId: string
) => Promise<void>

/** Publishes finished frames, some at a time for all requests together; resolves when all are durable. */
export function createPublishFrames (options: { publish: Publish, nextMessageId: () => string }): PublishFrames {
  const { publish, nextMessageId } = options
  const waiting: (() => void)[] = []
  let free = WINDOW

  return async function publishFrames (frames, requestId) {
    await Promise.all(frames.map(async (frame) => {
      if (free > 0) free--
      else await new Promise<void>((resolve) => waiting.push(resolve))
      try {
        const subject = eventsSubject(frame.eventClass, frame.partition)
        await publish({ subject, id: nextMessageId(), headers: frameHeaders(frame, requestId), payload: frame.payload })
      } finally {
        const next = waiting.shift()
        if (next === undefined) free++
        else next()
      }
    }))
  }
}
