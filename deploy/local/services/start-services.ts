import { type Credentials } from '../data-dir/credentials.ts'
import { type Progress } from '../progress.ts'
import { startClickHouse } from './start-clickhouse.ts'
import { startNatsServer } from './nats/start-nats-server.ts'
import { startPostgres } from './postgres/start-postgres.ts'
import { type Service } from './service.ts'
import { type PartHooks, type StackParts } from '../stack-parts.ts'
import { type StackSettings } from '../stack-settings.ts'

/** What the tiers are given of the services. */
export interface ServiceUrls {
  natsUrl: string
  clickhouseUrl: string
  databaseUrl: string
}

interface StartServicesOptions {
  settings: StackSettings
  credentials: Credentials
  parts: StackParts
  progress: Progress
}

/** Starts the three services at once, except those that the operator replaced by a URL. */
export async function startServices (options: StartServicesOptions): Promise<ServiceUrls> {
  const { settings, credentials, parts, progress } = options
  const { dataDir, ports, external } = settings

  const [natsUrl, clickhouseUrl, databaseUrl] = await Promise.all([
    external.natsUrl ?? startKept(parts, 'nats-server', ports.nats, async (port, hooks) => await startNatsServer({
      ...hooks,
      dataDir,
      port,
      binary: settings.natsServer,
      onFetch: () => progress.note('  nats-server is not on PATH: fetching it from the Debian mirror of this machine')
    })),
    external.clickhouseUrl ?? startKept(parts, 'clickhouse', ports.clickhouse, async (port, hooks) => await startClickHouse({
      ...hooks,
      dataDir,
      port,
      password: credentials.clickhousePassword,
      analystPassword: credentials.analystPassword,
      logLevel: settings.logLevel
    })),
    external.databaseUrl ?? startKept(parts, 'postgres', ports.postgres, async (port, hooks) => await startPostgres({
      ...hooks, dataDir, port, password: credentials.postgresPassword
    }))
  ])
  return { natsUrl, clickhouseUrl, databaseUrl }
}

/** A service that is started again keeps the port of its first start, which its clients know. */
async function startKept (
  parts: StackParts, name: string, wanted: number, start: (port: number, hooks: PartHooks) => Promise<Service>
): Promise<string> {
  let port = wanted
  const { url } = await parts.start('services', name, async (hooks) => {
    const service = await start(port, hooks)
    port = service.port
    return service
  })
  return url
}
