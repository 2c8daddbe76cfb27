import { readAddresses } from '../../deploy/local/data-dir/stack-addresses.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { type TierName } from './read-tier.ts'

/** Where the processes of each tier answer. */
export type TierUrls = Record<TierName, readonly string[]>

/**
 * Finds the tiers: as given, else those of the embedded stack that runs on the data directory, else by the settings of
 * ports on this machine.
 */
export async function findTiers (env: NodeJS.ProcessEnv, given: Partial<TierUrls>): Promise<TierUrls> {
  const settings = loadSettings(env, ['MILLRACE_DATA_DIR', 'MILLRACE_PORT', 'MILLRACE_API_URL', 'MILLRACE_PIPELINE_PORT'])
  const found = await readAddresses(settings.MILLRACE_DATA_DIR).catch(() => ({
    baseUrl: `http://127.0.0.1:${settings.MILLRACE_PORT}`,
    apiUrl: settings.MILLRACE_API_URL,
    pipelineUrl: `http://127.0.0.1:${settings.MILLRACE_PIPELINE_PORT}`
  }))
  return { ingest: [found.baseUrl], pipeline: [found.pipelineUrl], api: [found.apiUrl], ...given }
}
