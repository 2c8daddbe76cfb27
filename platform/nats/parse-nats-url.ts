/** What the NATS client is told of the servers. */
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
 * @throws {TypeError} when a part is no URL. Its text is not repeated: it may hold a password.
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
