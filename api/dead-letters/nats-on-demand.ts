import { connectNats, type NatsConnection } from '../../platform/nats/connect-nats.ts'
import { type Logger } from '../../platform/logger.ts'

/** A connection that is made when it is first needed. */
export interface NatsOnDemand {
  /** Rejects while no server answers; the next call tries again. */
  get: () => Promise<NatsConnection>
  close: () => Promise<void>
}

/**
 * Of the whole API only dead letters need NATS, so it starts and serves everything else without. Once made, the
 * connection repairs itself.
 */
export function createNatsOnDemand (options: { url: string, logger: Logger }): NatsOnDemand {
  let connection: Promise<NatsConnection> | undefined
  return {
    async get () {
      const made = connection ??= connectNats({ ...options, name: 'millrace-api' })
      try {
        return await made
      } catch (error) {
        if (connection === made) connection = undefined
        throw error
      }
    },
    async close () {
      const made = connection
      connection = undefined
      // Safe to ignore: a connection that could not be made needs no closing.
      await made?.then(async (open) => await open.close(), () => {})
    }
  }
}
