/** Waits, in a cluster of nats-servers that lost one, until those have leaders again that somebody needs. */
import type { StreamInfo } from '@nats-io/jetstream'
import { pause } from '../intervals.ts'
import type { NatsConnection } from './connect-nats.ts'
import { isOfLeader } from './stream-info.ts'

/**
 * Requests sent during an election get no reply. Retry interval, in milliseconds; a reply to any of them counts, as a
 * busy machine may need longer for each.
 */
const ASK_EVERY_MS = 250

/** How long an answer is waited for, in milliseconds. */
const ANSWER_MS = 1500

/** Longer than an election takes (4 to 9 s), in milliseconds. After that whoever waits finds out what else is wrong. */
const WITHIN_MS = 12_000

/** Pending requests, shared by callers that wait for the same, by connection. */
const asking = new WeakMap<NatsConnection, Map<string, Promise<void>>>()

/** Which leaders are waited for. */
export interface NeededLeaders {
  /** Names of streams; a bucket is the stream `KV_<bucket>`. */
  streams: readonly string[]
  /** Whether the leader of the cluster itself is needed, as for creating a consumer. */
  cluster: boolean
}

/**
 * Resolves when each of these streams has a leader that answers, be it with an error of its own; at once on a single
 * server. Never rejects; resolves as well after `WITHIN_MS`, and when the signal fires. Callers of one connection that
 * wait for the same share the questions.
 *
 * Whoever repeated its work instead would wait, at the worst, for the timeouts of all its requests into the election
 * after the election is over.
 */
export async function awaitLeaders (
  connection: NatsConnection, needed: NeededLeaders, signal: AbortSignal
): Promise<void> {
  const shared = asking.get(connection) ?? new Map<string, Promise<void>>()
  asking.set(connection, shared)
  const key = JSON.stringify(needed)
  let all = shared.get(key)
  if (all === undefined) {
    const subjects = needed.streams.map((stream) => `$JS.API.STREAM.INFO.${stream}`)
    if (needed.cluster) subjects.push('$JS.API.INFO')
    const deadline = performance.now() + WITHIN_MS
    all = Promise.all(subjects.map(async (subject) => await keepAsking(connection, subject, deadline)))
      .then(() => { shared.delete(key) })
    shared.set(key, all)
  }
  await Promise.race([all, pause(WITHIN_MS, signal, { ref: false })])
}

async function keepAsking (connection: NatsConnection, subject: string, deadline: number): Promise<void> {
  const answered = new AbortController()
  while (!answered.signal.aborted && performance.now() < deadline && !connection.isClosed()) {
    void isLed(connection, subject).then((led) => { if (led) answered.abort() })
    await pause(ASK_EVERY_MS, answered.signal)
  }
}

async function isLed (connection: NatsConnection, subject: string): Promise<boolean> {
  try {
    const answer = await connection.request(subject, '', { timeout: ANSWER_MS })
    const { error, cluster } = answer.json<{ error?: { code: number }, cluster?: StreamInfo['cluster'] }>()
    if (error !== undefined) return error.code !== UNAVAILABLE
    return subject === '$JS.API.INFO' || isOfLeader(cluster)
  } catch {
    // Not connected, nobody there, or no answer in time: all the same here.
    return false
  }
}

/** Code of JetStream's answers that a group of servers has no leader now. */
const UNAVAILABLE = 503
