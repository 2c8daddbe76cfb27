import { setTimeout as delay } from 'node:timers/promises'
import {
  AuthorizationError, connect, type ConnectionOptions, type NatsConnection, UserAuthenticationExpiredError
} from '@nats-io/transport-node'
import { MillraceError } from '../../engines/errors.ts'
import type { Logger } from '../logger.ts'

export type { NatsConnection } from '@nats-io/transport-node'

/** After this time without a first connection there is a line in the log, in milliseconds, and so often again. */
const [SILENCE_MS, REPEAT_MS] = [1000, 5000]

/** Pause between two attempts to connect, in milliseconds, and how much longer it may be, so that processes spread. */
const [RETRY_MS, RETRY_JITTER_MS] = [250, 100]

/** A server answered and did not accept the login of `NATS_URL`. */
export class NatsLoginRefusedError extends MillraceError {
  constructor (cause: Error) {
    super('MILLRACE_NATS_LOGIN_REFUSED', 'NATS refused the login of NATS_URL; correct the user or the password ' +
      `(${cause.message})`, { action: 'retry', cause })
    this.name = 'NatsLoginRefusedError'
  }
}

/**
 * Connects to NATS and keeps reconnecting indefinitely: neither an outage of the stream nor a login that is refused, as
 * while a password is rotated, is a reason to exit.
 *
 * @param options.url   One or more servers, comma separated; login and TLS as `parseNatsUrl` says.
 * @param options.name  Shown by `nats server report connections`.
 * @param options.timeoutMs  How long an attempt to connect may take. Default 20,000, the client's own.
 * @param options.waitForServer  Retry the first connection too instead of throwing when no server accepts it.
 * @throws {NatsLoginRefusedError} when the first login is refused, unless `waitForServer` is set.
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
  let why = 'no server answers'
  let lastError: string | undefined
  // The client says nothing while it tries for the first time.
  let timer = setTimeout(function say () {
    options.logger.warn({ servers: servers.servers, lastError }, `waiting for NATS: ${why}; ${isPatient ? 'retrying until it succeeds' : 'retrying'}`)
    timer = setTimeout(say, REPEAT_MS)
  }, SILENCE_MS)
  try {
    for (;;) {
      try {
        const connection = await connectOnce({ ...options, servers })
        void logStatus(connection, options.logger)
        return connection
      } catch (error) {
        if (!isPatient) throw error
        lastError = error instanceof Error ? error.message : String(error)
        why = error instanceof NatsLoginRefusedError ? 'the login of NATS_URL was refused' : 'no server answers'
      }
      await delay(RETRY_MS + Math.random() * RETRY_JITTER_MS)
    }
  } finally {
    clearTimeout(timer)
  }
}

/** Tries each server once. A connection reconnects until it is closed. */
async function connectOnce (
  { servers, name, timeoutMs }: { servers: NatsServers, name: string, timeoutMs?: number }
): Promise<NatsConnection> {
  // The client's own waiting for a first connection gives up at the second login that is refused.
  const connection = await connect({
    ...servers,
    name,
    maxReconnectAttempts: -1,
    reconnectTimeWait: RETRY_MS,
    reconnectJitter: RETRY_JITTER_MS,
    ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }),
    // Without a quick ping a silently dead server is noticed after two minutes only; so after six seconds.
    pingInterval: 2000,
    maxPingOut: 2
  }).catch((error: unknown) => { throw isRefusedLogin(error) ? new NatsLoginRefusedError(error) : error })
  // Not from the start: servers of a cluster that name each other would then be tried for ever, without a pause.
  const { options } = connection as NatsConnection & { options: ConnectionOptions }
  options.ignoreAuthErrorAbort = true
  return connection
}

function isRefusedLogin (error: unknown): error is Error {
  return error instanceof AuthorizationError || error instanceof UserAuthenticationExpiredError
}

/** The client tells of each attempt that fails as of a connection lost, and at the end of as many reconnects. */
async function logStatus (connection: NatsConnection, logger: Logger): Promise<void> {
  let isConnected = true
  let saidRefusedAt = -Infinity
  for await (const status of connection.status()) {
    const server = connection.getServer()
    if (status.type === 'disconnect') {
      if (isConnected) logger.warn({ server }, 'lost the connection to NATS; reconnecting')
      isConnected = false
    } else if (status.type === 'reconnect') {
      if (!isConnected) logger.warn({ server }, 'reconnected to NATS')
      isConnected = true
    } else if (status.type === 'error') {
      if (!isRefusedLogin(status.error)) {
        logger.error({ err: status.error }, 'the connection to NATS failed')
      } else if (performance.now() - saidRefusedAt >= REPEAT_MS) {
        saidRefusedAt = performance.now()
        logger.error({ server, err: status.error }, 'NATS refused the login of NATS_URL; retrying until it is accepted')
      }
    }
  }
}

/** Options of the NATS client about its servers. */
export interface NatsServers {
  /** `host:port` of each. */
  servers: string[]
  user?: string
  pass?: string
  /** Present: requires an encrypted connection with a valid server certificate. */
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
