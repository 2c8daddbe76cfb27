import { readAddresses, type StackAddresses } from '../deploy/local/data-dir/stack-addresses.ts'
import { loadSettings } from '../platform/load-settings.ts'

export type AddressName = 'DATABASE_URL' | 'CLICKHOUSE_URL' | 'NATS_URL'

const IN_STACK = {
  DATABASE_URL: 'databaseUrl', CLICKHOUSE_URL: 'clickhouseUrl', NATS_URL: 'natsUrl'
} as const satisfies Record<AddressName, keyof StackAddresses>

/**
 * Where a command finds a service: the variable of that name, else the embedded stack that runs on the data directory
 * (`MILLRACE_DATA_DIR`), else the default of the setting.
 */
export async function findAddress (env: NodeJS.ProcessEnv, name: AddressName): Promise<string> {
  const { [name]: fallback, MILLRACE_DATA_DIR: dataDir } = loadSettings(env, [name, 'MILLRACE_DATA_DIR'])
  if (env[name] !== undefined && env[name] !== '') return fallback
  try {
    return (await readAddresses(dataDir))[IN_STACK[name]]
  } catch {
    // No stack was started here: the default may still be right, and the connection says when it is not.
    return fallback
  }
}
