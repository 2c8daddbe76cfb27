/** The server of the simulated streams: what it answers to the requests of the client. */
import { INGEST_BUCKET } from '../../schema/wire/ingest-presence.ts'
import { DEAD_LETTER_STREAM, EVENTS_STREAM, MEMBERS_BUCKET, PARTITIONS_BUCKET, PERSONS_STREAM } from '../../schema/wire/streams.ts'
import {
  ApiError, FakeStream, type Receiver, type SentMessage, type StreamOptions, tellStatus
} from './fake-stream.ts'
import type { World } from './virtual-time.ts'

const STREAMS: readonly StreamOptions[] = [
  { name: EVENTS_STREAM, prefix: 'events.', retention: 'workqueue' },
  { name: PERSONS_STREAM, prefix: 'persons.', retention: 'workqueue' },
  { name: DEAD_LETTER_STREAM, prefix: 'dead.', retention: 'limits' },
  ...[PARTITIONS_BUCKET, MEMBERS_BUCKET, INGEST_BUCKET].map((bucket) =>
    ({ name: `KV_${bucket}`, prefix: `$KV.${bucket}.`, retention: 'limits', isBucket: true }) as const)
]

interface CreateRequest {
  config: { ack_wait: number }
}

/** The server: all its streams, and what it answers to the requests of the client. */
export class FakeJetStream {
  readonly streams = new Map<string, FakeStream>()
  readonly receivers: Receiver[] = []
  readonly #world: World

  constructor (world: World) {
    this.#world = world
    for (const options of STREAMS) this.streams.set(options.name, new FakeStream(world, options))
  }

  stream (name: string): FakeStream {
    const stream = this.streams.get(name)
    if (stream === undefined) throw new Error(`there is no stream ${name}`)
    return stream
  }

  /** The stream that a request or message is about; undefined when it is not about one. */
  streamOf (subject: string): FakeStream | undefined {
    const [, prefix, api] = subject.split('.', 3)
    if (!subject.startsWith('$JS.')) {
      for (const stream of this.streams.values()) if (subject.startsWith(stream.options.prefix)) return stream
      return undefined
    }
    if (prefix === 'ACK') return this.streams.get(api ?? '')
    for (const token of subject.split('.')) {
      const stream = this.streams.get(token)
      if (stream !== undefined) return stream
    }
    return undefined
  }

  /** Handles a message. @returns the answer, if any. */
  handle (
    message: SentMessage, stream: FakeStream | undefined, from: { receiver: Receiver, reply: string }
  ): Record<string, unknown> | null {
    try {
      return this.#handle(message, stream, from)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      return error.answer
    }
  }

  #handle (
    { subject, data, headers }: SentMessage, stream: FakeStream | undefined,
    { receiver, reply }: { receiver: Receiver, reply: string }
  ): Record<string, unknown> | null {
    if (!subject.startsWith('$JS.')) {
      if (stream === undefined) {
        // Nobody keeps it: who listens hears it.
        for (const each of this.receivers) each.receive(subject, { subject, data, headers, reply })
        return null
      }
      const { sequence, isDuplicate } = stream.publish({ subject, data, headers })
      this.#world.log(`stored ${subject} ${sequence}${isDuplicate ? ' again' : ''}`)
      return { stream: stream.options.name, seq: sequence, ...(isDuplicate && { duplicate: true }) }
    }
    const tokens = subject.split('.')
    if (subject === '$JS.API.INFO') return { memory: 0, storage: 0, streams: this.streams.size, consumers: 0 }
    if (stream === undefined) throw new ApiError(404, 10059, 'stream not found')
    if (tokens[1] === 'ACK') {
      stream.acknowledge(tokens[3] ?? '', Number(tokens[5]))
      return null
    }
    const asked = data.length > 0 ? JSON.parse(Buffer.from(data).toString()) as object : {}
    switch (tokens.slice(2, 4).join('.')) {
      case 'STREAM.INFO': return stream.describe(asked)
      case 'STREAM.MSG': return stream.getMessage(asked)
      case 'CONSUMER.CREATE':
        stream.createConsumer(tokens[5] ?? '', tokens.slice(6).join('.'), (asked as CreateRequest).config.ack_wait / 1e6)
        this.#world.log(`consumer ${tokens[5]} created`)
        return stream.describeConsumer(tokens[5] ?? '')
      case 'CONSUMER.DELETE':
        stream.deleteConsumer(tokens[5] ?? '')
        return { success: true }
      case 'CONSUMER.INFO': return stream.describeConsumer(tokens[5] ?? '')
      case 'CONSUMER.MSG':
        if (!stream.pull(tokens[6] ?? '', receiver, reply, asked as Record<string, number>)) {
          tellStatus(receiver, reply, 503, 'No Responders')
        }
        return null
      default: throw new Error(`the simulation does not know the request ${subject}`)
    }
  }
}
