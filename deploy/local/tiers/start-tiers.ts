import { type Progress } from '../progress.ts'
import { pickFreePort } from '../processes/pick-free-port.ts'
import { type StackParts, type StopGroup } from '../stack-parts.ts'
import { type StackSettings } from '../stack-settings.ts'
import { type ServiceUrls } from '../services/start-services.ts'
import { startTier, toClientUrl, type TierName } from './start-tier.ts'

interface StartTiersOptions {
  settings: StackSettings
  urls: ServiceUrls
  parts: StackParts
  progress: Progress
}

export interface TierUrls {
  baseUrl: string
  apiUrl: string
  pipelineUrl: string
}

const LOCAL = '127.0.0.1'

/**
 * Starts the three tiers. Ingest comes after the API, for it is the origin of both: anyone who waits for the origin may
 * ask it for everything, and gets no 503 from an API that is still starting.
 */
export async function startTiers ({ settings, urls, parts }: StartTiersOptions): Promise<TierUrls> {
  const { dataDir, host } = settings
  const ports = {
    ingest: settings.ports.origin || await pickFreePort(),
    api: settings.ports.api || await pickFreePort(),
    pipeline: settings.ports.pipeline || await pickFreePort()
  }
  const apiUrl = toClientUrl(LOCAL, ports.api)
  const env = {
    ...settings.env,
    NATS_URL: urls.natsUrl,
    CLICKHOUSE_URL: urls.clickhouseUrl,
    DATABASE_URL: urls.databaseUrl,
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_PORT: String(ports.ingest),
    MILLRACE_API_PORT: String(ports.api),
    MILLRACE_PIPELINE_PORT: String(ports.pipeline),
    MILLRACE_API_URL: apiUrl
  }
  const start = async (name: TierName, group: StopGroup, listenOn: string): Promise<void> => {
    await parts.start(group, name, async (hooks) => await startTier({
      ...hooks, name, port: ports[name], host: listenOn, env: { ...env, MILLRACE_HOST: listenOn }, dataDir
    }))
  }
  await Promise.all([
    start('pipeline', 'pipeline', LOCAL),
    start('api', 'sources', LOCAL).then(async () => await start('ingest', 'sources', host))
  ])
  return { baseUrl: toClientUrl(host, ports.ingest), apiUrl, pipelineUrl: toClientUrl(LOCAL, ports.pipeline) }
}
