/** What a stream says of itself, from a server that knows. */
import type { JetStreamManager, StreamInfo, StreamInfoRequestOptions } from '@nats-io/jetstream'
import { MillraceError } from '../../engines/errors.ts'

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
 * Whether a state comes from the leader of the stream, whom most of its servers have followed just now.
 *
 * @param cluster  Of the state. Undefined: a single server.
 */
export function isOfLeader (cluster: StreamInfo['cluster'] | undefined): boolean {
  if (cluster === undefined) return true
  if (!cluster.leader) return false
  const others = cluster.replicas ?? []
  // Never heard of is 0.
  const heard = others.filter(({ active }) => active > 0 && active < HEARD_WITHIN_NS)
  return (heard.length + 1) * 2 > others.length + 1
}
