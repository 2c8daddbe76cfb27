import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pickFreePort } from '../../deploy/local/ports.ts'
import { startTier, type TierName } from '../../deploy/local/start-parts.ts'
import { type TestContext } from '../support/test-context.ts'

/** What a tier is told, beside its port: its own login to each store. */
export type TierEnv = Record<'NATS_URL' | 'DATABASE_URL' | 'CLICKHOUSE_URL', string> & Record<string, string>

export interface SecuredTiers {
  /** Of ingest, which forwards to the API. */
  url: string
  pipelineUrl: string
  apiUrl: string
  /** Of each tier's log. */
  logFiles: Record<TierName, string>
}

/** Starts one process of each tier, each with an environment of its own; they end with the test. */
export async function startSecuredTiers (
  t: TestContext, envs: Record<TierName, TierEnv>
): Promise<SecuredTiers> {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-secured-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  const ports = { ingest: await pickFreePort(), pipeline: await pickFreePort(), api: await pickFreePort() }
  const url = (name: TierName): string => `http://127.0.0.1:${ports[name]}`
  const start = async (name: TierName): Promise<string> => {
    const dataDir = path.join(root, name)
    const part = await startTier({
      name, port: ports[name], host: '127.0.0.1', dataDir, stopTimeoutMs: 9500,
      signal: new AbortController().signal,
      onSpawn: (child) => t.teardown(async () => { await child.stop() }),
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        MILLRACE_DATA_DIR: dataDir,
        MILLRACE_PORT: String(ports.ingest),
        MILLRACE_PIPELINE_PORT: String(ports.pipeline),
        MILLRACE_API_PORT: String(ports.api),
        MILLRACE_API_URL: url('api'),
        MILLRACE_LOG_LEVEL: 'debug',
        ...envs[name]
      }
    })
    return part.logFile
  }
  const [pipeline, api, ingest] = await Promise.all([start('pipeline'), start('api'), start('ingest')])
  return { url: url('ingest'), pipelineUrl: url('pipeline'), apiUrl: url('api'), logFiles: { ingest, pipeline, api } }
}
