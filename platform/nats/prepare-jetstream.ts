import { jetstream, jetstreamManager, type JetStreamManager, type StreamConfig } from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import { type StreamLimits, streamSettings, type StreamSettings } from '../../schema/wire/streams.ts'
import { MillraceError } from '../../engines/errors.ts'
import type { NatsConnection } from './connect-nats.ts'
import { orNoStream } from './stream-info.ts'

/**
 * How long a request to JetStream may take, in milliseconds. One that a leader took with it into its death is never
 * answered, and waiting for it is in vain: the client's own 5 s are added to those of the election (4 to 9 s).
 */
const REQUEST_TIMEOUT_MS = 2500

/** The manager of streams and consumers. It asks nothing by itself: only the leader of the cluster would answer. */
export async function manageJetStream (connection: NatsConnection): Promise<JetStreamManager> {
  return await jetstreamManager(connection, { timeout: REQUEST_TIMEOUT_MS, checkAPI: false })
}

/**
 * Creates the streams that are missing and brings the limits of existing ones to the given values. Idempotent; every
 * tier that needs the streams calls it at start.
 *
 * @throws {MillraceError} `MILLRACE_STREAM_MISMATCH` when a stream of that name exists with another retention, storage
 *   or discard policy, because then the promises of `docs/reference/guarantees.md` would not hold.
 */
export async function ensureStreams (connection: NatsConnection, limits: StreamLimits): Promise<void> {
  const manager = await manageJetStream(connection)
  for (const settings of streamSettings(limits)) await ensureStream(manager, settings)
}

async function ensureStream (manager: JetStreamManager, settings: StreamSettings): Promise<void> {
  const existing = (await orNoStream(manager.streams.info(settings.name)))?.config
  if (existing === undefined) {
    // Two processes may create it at once: with equal settings the second call changes nothing.
    await manager.streams.add(settings as Partial<StreamConfig> & { name: string })
    return
  }
  for (const field of ['retention', 'storage', 'discard'] as const) {
    if (existing[field] !== settings[field]) throw mismatch(settings, field, existing[field])
  }
  if (differences(existing, settings).length === 0) return
  await manager.streams.update(settings.name, settings as Partial<StreamConfig>)
}

function differences (existing: StreamConfig, settings: StreamSettings): (keyof StreamSettings)[] {
  return (Object.keys(settings) as (keyof StreamSettings)[])
    .filter((field) => JSON.stringify(existing[field]) !== JSON.stringify(settings[field]))
}

function mismatch (settings: StreamSettings, field: 'retention' | 'storage' | 'discard', found: string): MillraceError {
  return new MillraceError('MILLRACE_STREAM_MISMATCH',
    `stream ${settings.name} has ${field} ${found} but must have ${settings[field]}: drain and delete it, then start again`,
    { details: { stream: settings.name, field, found } })
}

/**
 * Opens a key-value bucket, makes it when it is missing, and brings its replicas to the given number: the client leaves
 * those of an existing bucket as they are, so one that was made on a single server would stay on one of three.
 *
 * @param options.isDirect  Reads may come from a replica that lags. Default: always from the leader.
 * @throws what JetStream says, for example while a cluster has no leader.
 */
export async function openBucket (
  connection: NatsConnection, name: string, { replicas, isDirect = false }: { replicas: number, isDirect?: boolean }
): Promise<KV> {
  const options = { history: 1, replicas, allow_direct: isDirect }
  const bucket = await new Kvm(jetstream(connection, { timeout: REQUEST_TIMEOUT_MS })).create(name, options)
  const manager = await manageJetStream(connection)
  const { config } = await manager.streams.info(`KV_${name}`)
  if (config.num_replicas !== replicas) await manager.streams.update(config.name, { ...config, num_replicas: replicas })
  return bucket
}
