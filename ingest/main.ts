import { createLogger } from '../platform/logger.ts'
import { onShutdown, runProcess } from '../platform/process-lifecycle.ts'
import { loadIngestConfig } from './config.ts'
import { startIngest } from './start-ingest.ts'

/** The ingest tier as a process. The life of an event through it is in `start-ingest.ts`. */
runProcess('ingest', async function main () {
  const config = loadIngestConfig(process.env)
  const logger = createLogger({ component: 'ingest', level: config.logLevel })
  const ingest = await startIngest(config, logger)
  logger.info({ host: config.http.host, port: ingest.port }, 'ingest is listening')
  onShutdown(logger, ingest.shutdownSteps)
})
