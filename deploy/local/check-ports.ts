import { SettingsError } from '../../platform/errors.ts'
import { type SettingName } from '../../platform/settings.ts'
import { isPortFree } from './processes/pick-free-port.ts'
import { type StackSettings } from './stack-settings.ts'

interface WantedPort {
  port: number
  host: string
  setting: SettingName
  what: string
}

/**
 * Looks whether every chosen port can be had, before anything is started. Port 0 is always free.
 *
 * @throws {SettingsError} naming every port that is taken and the setting that changes it.
 */
export async function checkPorts (settings: StackSettings): Promise<void> {
  const wanted = listPorts(settings).filter(({ port }) => port !== 0)
  const problems: string[] = []
  for (const [index, { port, host, setting, what }] of wanted.entries()) {
    const earlier = wanted.slice(0, index).find((other) => other.port === port)
    if (earlier !== undefined) {
      problems.push(`${setting} and ${earlier.setting} are both ${port}: every part needs a port of its own`)
    } else if (!(await isPortFree(port, host))) {
      problems.push(`port ${port} for ${what} is in use by another process: set ${setting} to a free one`)
    }
  }
  if (problems.length > 0) throw new SettingsError(problems)
}

function listPorts ({ ports, host, external }: StackSettings): WantedPort[] {
  const local = '127.0.0.1'
  const wanted: WantedPort[] = [
    { port: ports.origin, host, setting: 'MILLRACE_PORT', what: 'ingest, the origin for SDKs' },
    { port: ports.api, host: local, setting: 'MILLRACE_API_PORT', what: 'the API' },
    { port: ports.pipeline, host: local, setting: 'MILLRACE_PIPELINE_PORT', what: 'the pipeline' }
  ]
  if (external.clickhouseUrl === undefined) {
    wanted.push({ port: ports.clickhouse, host: local, setting: 'MILLRACE_CLICKHOUSE_PORT', what: 'ClickHouse' })
  }
  if (external.natsUrl === undefined) {
    wanted.push({ port: ports.nats, host: local, setting: 'MILLRACE_NATS_PORT', what: 'nats-server' })
  }
  if (external.databaseUrl === undefined) {
    wanted.push({ port: ports.postgres, host: local, setting: 'MILLRACE_POSTGRES_PORT', what: 'Postgres' })
  }
  return wanted
}
