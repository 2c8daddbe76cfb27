import { connect, type NatsConnection } from '@nats-io/transport-node'
import type { Logger } from '../logger.ts'

export type { NatsConnection } from '@nats-io/transport-node'

/** How long a first connection may take unsaid, in milliseconds, and how often it is said that it goes on. */
const [SILENCE_MS, REPEAT_MS] = [1000, 5000]

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
  const servers = parseNatsUrl(options.url)
  const isPatient = options.waitForServer ?? false
  // The client says nothing while it tries for the first time.
  let timer = setTimeout(function say () {
    options.logger.warn({ servers: servers.servers }, `waiting for NATS: no server of NATS_URL has answered yet; ${isPatient ? 'trying on until one does' : 'trying on'}`)
    timer = setTimeout(say, REPEAT_MS)
  }, SILENCE_MS)
  const connection = await connect({
    ...servers,
    name: options.name,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    reconnectJitter: 100,
    waitOnFirstConnect: isPatient,
    ...(options.timeoutMs === undefined ? {} : { timeout: options.timeoutMs }),
    // Without a quick ping a silently dead server is noticed after two minutes only; so after six seconds.
    pingInterval: 2000,
    maxPingOut: 2
  }).finally(() => { clearTimeout(timer) })
  void logStatus(connection, options.logger)
  return connection
}

async function logStatus (connection: NatsConnection, logger: Logger): Promise<void> {
  for await (const status of connection.status()) {
    const server = connection.getServer()
    if (status.type === 'disconnect') logger.warn({ server }, 'lost the connection to NATS; reconnecting')
    else if (status.type === 'reconnect') logger.warn({ server }, 'reconnected to NATS')
    else if (status.type === 'error') logger.error({ err: status.error }, 'the connection to NATS failed')
  }
}

/** Options of the NATS client about its servers. */
export interface NatsServers {
  /** `host:port` of each. */
  servers: string[]
  user?: string
  pass?: string
  /** Present: the connection is encrypted and the certificate of the server checked, or there is none. */
  tls?: Record<string, never>
}

/**
 * Reads `NATS_URL`, of which the client itself understands neither a login nor a scheme.
 *
 * - `nats://user:password@host:port,nats://host2:port`: the login is that of the first server that names one.
 * - `tls://host:port`: without TLS there is no connection, to any of the servers. The certificate is checked against
 *   the authorities that Node knows; a private one is named by `NODE_EXTRA_CA_CERTS`.
 *
 * @throws {TypeError} when a part is not a URL. Its text is not repeated: it may hold a password.
 */
export function parseNatsUrl (text: string): NatsServers {
  const urls = text.split(',').map((part) => part.trim()).filter(Boolean).map(toUrl)
  const login = urls.find(({ username }) => username !== '')
  return {
    servers: urls.map(({ host }) => host),
    ...login === undefined
      ? {}
      : { user: decodeURIComponent(login.username), pass: decodeURIComponent(login.password) },
    ...urls.some(({ protocol }) => protocol === 'tls:') ? { tls: {} } : {}
  }
}

function toUrl (part: string): URL {
  const url = URL.parse(part.includes('://') ? part : `nats://${part}`)
  if (url === null || url.host === '') throw new TypeError('NATS_URL must be nats://host:port or tls://host:port')
  return url
}
