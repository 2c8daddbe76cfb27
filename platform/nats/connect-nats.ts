import { connect, type NatsConnection } from '@nats-io/transport-node'
import { type Logger } from '../logger.ts'
import { parseNatsUrl } from './parse-nats-url.ts'

export type { NatsConnection } from '@nats-io/transport-node'

/**
 * Connects to NATS and keeps reconnecting indefinitely: an outage of the stream is waited out, never a reason to exit.
 *
 * @param options.url   One or more servers, comma separated; login and TLS as `parseNatsUrl` says.
 * @param options.name  Shown by `nats server report connections`.
 * @param options.timeoutMs  How long the first connection may take. Default 20,000, the client's own.
 * @param options.waitForServer  Retry the first connection too instead of throwing when no server answers.
 */
export async function connectNats (options: {
  url: string
  name: string
  logger: Logger
  timeoutMs?: number
  waitForServer?: boolean
}): Promise<NatsConnection> {
  const connection = await connect({
    ...parseNatsUrl(options.url),
    name: options.name,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    reconnectJitter: 100,
    waitOnFirstConnect: options.waitForServer ?? false,
    ...(options.timeoutMs === undefined ? {} : { timeout: options.timeoutMs }),
    // Without a quick ping a silently dead server is noticed after two minutes only.
    pingInterval: 5000,
    maxPingOut: 2
  })
  void logStatus(connection, options.logger)
  return connection
}

async function logStatus (connection: NatsConnection, logger: Logger): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === 'disconnect' || status.type === 'reconnect') {
      logger.warn({ status: status.type, server: connection.getServer() }, 'nats connection changed')
    } else if (status.type === 'error') {
      logger.error({ err: status.error }, 'nats connection error')
    }
  }
}
