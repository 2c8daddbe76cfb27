import { jetstreamManager, JetStreamApiError, type JetStreamManager, type StreamConfig } from '@nats-io/jetstream'
import { streamSettings, type StreamLimits, type StreamSettings } from '../../schema/stream-settings.ts'
import { MillraceError } from '../errors.ts'
import { type NatsConnection } from './connect-nats.ts'

/** Error code of the JetStream API: no such stream. */
const STREAM_NOT_FOUND = 10059

/**
 * Creates the streams that are missing and brings the limits of existing ones to the given values. Idempotent; every
 * tier that needs the streams calls it at start.
 *
 * @throws {MillraceError} `MILLRACE_STREAM_MISMATCH` when a stream of that name exists with another retention, storage
 *   or discard policy, because then the promises of `docs/guarantees.md` would not hold.
 */
export async function ensureStreams (connection: NatsConnection, limits: StreamLimits): Promise<void> {
  const manager = await jetstreamManager(connection)
  for (const settings of streamSettings(limits)) await ensureStream(manager, settings)
}

async function ensureStream (manager: JetStreamManager, settings: StreamSettings): Promise<void> {
  const existing = await findStream(manager, settings.name)
  if (existing === null) {
    // Two processes may create it at once: with equal settings the second call changes nothing.
    await manager.streams.add(settings as Partial<StreamConfig> & { name: string })
    return
  }
  for (const field of ['retention', 'storage', 'discard'] as const) {
    if (existing[field] !== settings[field]) throw mismatch(settings, field, existing[field])
  }
  const differs = (Object.keys(settings) as (keyof StreamSettings)[])
    .some((field) => JSON.stringify(existing[field]) !== JSON.stringify(settings[field]))
  if (differs) await manager.streams.update(settings.name, settings as Partial<StreamConfig>)
}

async function findStream (manager: JetStreamManager, name: string): Promise<StreamConfig | null> {
  try {
    return (await manager.streams.info(name)).config
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === STREAM_NOT_FOUND) return null
    throw error
  }
}

function mismatch (settings: StreamSettings, field: 'retention' | 'storage' | 'discard', found: string): MillraceError {
  return new MillraceError('MILLRACE_STREAM_MISMATCH',
    `stream ${settings.name} has ${field} ${found} but must have ${settings[field]}: drain and delete it, then start again`,
    { details: { stream: settings.name, field, found } })
}
