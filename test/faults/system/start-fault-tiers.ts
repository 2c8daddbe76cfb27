import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { startTier } from '../../../deploy/local/start-parts.ts'
import { freePorts } from '../../support/free-port.ts'
import { withoutSettings } from '../../support/without-settings.ts'
import { waitUntilIdle } from './wait-until-idle.ts'
import { type Supervise, type SupervisedPart } from './supervise.ts'

/** An ingest or pipeline process, and where it answers. */
export interface TierPart extends SupervisedPart {
  readonly port: number
}

export type Pair = readonly [TierPart, TierPart]

export interface FaultTiersOptions {
  dataDir: string
  natsUrl: string
  clickhouseUrl: string
  databaseUrl: string
  /** Both ingest processes listen on one port. */
  sharedPort: boolean
  /** Further settings; read at each start of a tier. */
  settings: Readonly<Record<string, string>>
  /** Of a tier; see `shift-clock.ts`. */
  clockFile: (tier: string) => string
}

/** Two partitions, so that each of the two pipeline processes has one. */
export const PARTITIONS = 2

/** As long as Ctrl-C may take. */
const STOP_TIMEOUT_MS = 9500

/** Starts two pipeline and two ingest processes. */
export async function startFaultTiers (
  options: FaultTiersOptions, supervise: Supervise
): Promise<{ ingest: Pair, pipeline: Pair }> {
  const env = {
    ...withoutSettings(process.env),
    NATS_URL: options.natsUrl,
    CLICKHOUSE_URL: options.clickhouseUrl,
    DATABASE_URL: options.databaseUrl,
    MILLRACE_PARTITIONS: String(PARTITIONS),
    NODE_OPTIONS: `--import=${path.join(import.meta.dirname, 'shift-clock.ts')}`
  }
  const start = async (name: 'ingest' | 'pipeline', index: number, port: number): Promise<TierPart> => {
    const dataDir = path.join(options.dataDir, `${name}-${index}`)
    await mkdir(dataDir, { recursive: true })
    const portSetting = name === 'ingest' ? 'MILLRACE_PORT' : 'MILLRACE_PIPELINE_PORT'
    const part = await supervise(`${name} ${index}`, async (signal, onSpawn) => await startTier({
      name, port, host: '127.0.0.1', dataDir, signal, onSpawn, stopTimeoutMs: STOP_TIMEOUT_MS,
      env: {
        ...env,
        MILLRACE_DATA_DIR: dataDir,
        MILLRACE_TEST_CLOCK_FILE: options.clockFile(name),
        [portSetting]: String(port),
        ...options.settings
      }
    }))
    return Object.assign(part, { port })
  }
  const ports = await freePorts(4)
  const [ingest0, ingest1, pipeline0, pipeline1] = await waitUntilIdle<[TierPart, TierPart, TierPart, TierPart]>([
    start('ingest', 0, ports[0]!), start('ingest', 1, options.sharedPort ? ports[0]! : ports[1]!),
    start('pipeline', 0, ports[2]!), start('pipeline', 1, ports[3]!)
  ])
  return { ingest: [ingest0, ingest1], pipeline: [pipeline0, pipeline1] }
}
