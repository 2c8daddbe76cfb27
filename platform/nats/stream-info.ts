/** What a stream says of itself, from a server that knows. */
import {
  JetStreamApiCodes, JetStreamApiError, type JetStreamManager, jetstreamManager, type StreamInfo,
  type StreamInfoRequestOptions
} from '@nats-io/jetstream'
import { MillraceError } from '../../engines/errors.ts'
import type { NatsConnection } from './connect-nats.ts'

/**
 * A leader has heard from each server it still leads within this long, in nanoseconds: it asks them every one to two
 * seconds, and after 4 s without it they elect another one (constants of nats-server, `server/raft.go`).
 */
const HEARD_WITHIN_NS = 3_000_000_000

/** No server can speak for a stream now, as while a cluster elects a leader. A later question overcomes it. */
export class LeaderlessError extends MillraceError {
  constructor (stream: string, cluster: StreamInfo['cluster']) {
    super('MILLRACE_STREAM_LEADERLESS', `stream ${stream} has no leader now that most of its servers follow`, {
      action: 'retry',
      details: {
        stream,
        answeredFor: cluster?.leader ?? '',
        servers: cluster?.replicas?.map(({ name, active }) => ({ name, heardMsAgo: Math.round(active / 1e6) }))
      }
    })
    this.name = 'LeaderlessError'
  }
}

/**
 * Asks for the state of a stream. In a cluster every server without a leader answers with what it has itself, and one
 * that was cut off for minutes has too little: its last sequence is too low, its messages are those of long ago
 * (`jsStreamInfoRequest` in nats-server). A leader that was cut off answers so as well, until it notices after 10 to
 * 20 s. Whoever concludes something from a state, be it that all is stored, needs the state of the leader.
 *
 * @throws {LeaderlessError}; what JetStream says otherwise.
 */
export async function readStreamInfo (
  manager: JetStreamManager, stream: string, options?: Partial<StreamInfoRequestOptions>
): Promise<StreamInfo> {
  const info = await manager.streams.info(stream, options)
  if (isOfLeader(info.cluster)) return info
  throw new LeaderlessError(stream, info.cluster)
}

/**
 * Whether a state comes from the leader of the stream, recently followed by a majority of its servers.
 *
 * @param cluster  Of the state. Undefined: a single server.
 */
export function isOfLeader (cluster: StreamInfo['cluster'] | undefined): boolean {
  if (cluster === undefined) return true
  if (!cluster.leader) return false
  const others = cluster.replicas ?? []
  // One that was never seen has 0.
  const heard = others.filter(({ active }) => active > 0 && active < HEARD_WITHIN_NS)
  return (heard.length + 1) * 2 > others.length + 1
}

/** The answer to a question about a stream; null when there is no such stream. */
export async function orNoStream<T> (answer: Promise<T>): Promise<T | null> {
  return await answer.catch((error: unknown) => {
    if (error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound) return null
    throw error
  })
}

/** A key of a bucket with what it has now. */
export interface BucketEntry<T> {
  key: string
  value: T
  /** When NATS stored it, epoch milliseconds. */
  storedAt: number
}

/**
 * Reads the entries of a key-value bucket as JSON, by its leader and without a consumer: the right to read the messages
 * of this one stream is enough.
 *
 * @param keys  Beginning of the keys that are read.
 * @returns none when there is no such bucket.
 * @throws when NATS is unavailable.
 */
export async function readBucket<T> (connection: NatsConnection, bucket: string, keys = ''): Promise<BucketEntry<T>[]> {
  const manager = await jetstreamManager(connection)
  const stream = `KV_${bucket}`
  const prefix = `$KV.${bucket}.`
  const info = await orNoStream(readStreamInfo(manager, stream, { subjects_filter: `${prefix}${keys}>` }))
  const entries: BucketEntry<T>[] = []
  for (const subject of Object.keys(info?.state.subjects ?? {})) {
    const message = await manager.streams.getMessage(stream, { last_by_subj: subject })
    // A key that was removed is an empty message.
    if (message === null || message.data.length === 0) continue
    entries.push({ key: subject.slice(prefix.length), value: message.json<T>(), storedAt: message.time.getTime() })
  }
  return entries
}
