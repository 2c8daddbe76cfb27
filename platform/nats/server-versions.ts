/** Whether the nats-servers that a connection meets keep the promise about power cuts. */
import type { ConnectionOptions } from '@nats-io/transport-node'
import { MillraceError } from '../../engines/errors.ts'
import type { HealthPart } from '../health-and-readiness.ts'
import type { Logger } from '../logger.ts'
import type { NatsConnection } from './connect-nats.ts'
import { type Greeting, OLDEST_NATS_SERVER, readGreeting, survivesPowerCut } from './nats-server-floor.ts'

/** A server that may lose acknowledged messages at a power cut. */
export interface OldServer {
  /** `host:port`. */
  server: string
  /** Empty if not reported. */
  version: string
}

/** The servers too old for a power cut: the connected one, and those of its cluster and of `NATS_URL` that answer. */
export async function findOldServers (connection: NatsConnection): Promise<OldServer[]> {
  const { options } = connection as NatsConnection & { options: ConnectionOptions }
  // A server may have several addresses.
  const servers = new Map<string, OldServer>()
  const note = (server: string, { server_id: id = server, version = '' }: Greeting): void => {
    if (!servers.has(id)) servers.set(id, { server, version })
  }
  note(connection.getServer(), connection.info ?? {})
  const others = new Set([options.servers ?? [], connection.info?.connect_urls ?? []].flat())
  await Promise.all([...others].map(async (server) => {
    const { hostname, port } = new URL(`nats://${server}`)
    const greeting = await readGreeting(hostname.replaceAll(/[[\]]/g, ''), Number(port || 4222)).catch(() => null)
    if (greeting !== null) note(server, greeting)
  }))
  return [...servers.values()].filter(({ version }) => !survivesPowerCut(version))
}

export type ServerVersions = ReturnType<typeof followServerVersions>

/** Looks at the servers again whenever the connection, or its cluster, gets another one; logs those that are old. */
export function followServerVersions (connection: NatsConnection, logger: Logger) {
  let withdrawn: string | null = null

  async function look (): Promise<void> {
    const found = await findOldServers(connection)
    const before = withdrawn
    withdrawn = explainOldServers(found)
    if (withdrawn !== null && withdrawn !== before) {
      logger.warn({ servers: found }, `the promise about power cuts is withdrawn: ${withdrawn}`)
    }
  }

  async function follow (): Promise<void> {
    for await (const { type } of connection.status()) if (type === 'reconnect' || type === 'update') await look()
  }

  void follow()
  return {
    /** @throws {MillraceError} `MILLRACE_NATS_SERVER_TOO_OLD` for an old one. */
    async refuseOld (): Promise<void> {
      await look()
      if (withdrawn !== null) throw new MillraceError('MILLRACE_NATS_SERVER_TOO_OLD', withdrawn)
    },
    /** Of `/_health`: `withdrawn` says why the promise about power cuts does not hold; null while it does. */
    part: (): HealthPart => ({ name: 'nats version', healthy: withdrawn === null, withdrawn })
  }
}

/** Why the promise about power cuts does not hold, and what to do; null if none is too old. */
export function explainOldServers (found: readonly OldServer[]): string | null {
  if (found.length === 0) return null
  const named = found.map(({ server, version }) => `${version || 'of an unknown version'} at ${server}`).join(', ')
  return `nats-server ${named} is older than ${OLDEST_NATS_SERVER} and may lose acknowledged events when the power is cut. ` +
    `Replace it by ${OLDEST_NATS_SERVER} or newer`
}
