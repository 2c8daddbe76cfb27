/** Ports: whether the chosen ones are free, and free ones for everything else. */
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { SettingsError } from '../../engines/errors.ts'
import { describeListenError, type WantedAddress } from '../../platform/listen-errors.ts'
import type { StackSettings } from './stack-settings.ts'
import { ServiceStartError } from './processes/service.ts'

/**
 * Below the range from which Linux takes the ports of outgoing connections (32768 to 60999), so that none of those
 * takes the port away between the test and its use.
 */
const FIRST_PORT = 20_000
const PORTS = 12_000
/** More than a process picks that runs for long: another one may begin where it did. */
const ATTEMPTS = 1000

/** Another one in each process, so that hardly any two try the same ports. */
let next = randomInt(PORTS)

/**
 * Checks that every chosen port is free, and that this machine has the addresses, before anything is started. Port 0
 * stands for any free one.
 *
 * @throws {SettingsError} naming every port that is taken, every wrong address, and the setting that changes it.
 */
export async function checkPorts (settings: StackSettings): Promise<void> {
  const wanted = listPorts(settings)
  const problems: string[] = []
  for (const [index, address] of wanted.entries()) {
    const { port, host, setting } = address
    const earlier = wanted.slice(0, index).find((other) => port !== 0 && other.port === port)
    if (earlier !== undefined) {
      problems.push(`${setting} and ${earlier.setting} are both ${port}: each part needs its own port`)
      continue
    }
    const code = await tryPort(port, host)
    if (code !== undefined) problems.push(describeListenError(code, address))
  }
  if (problems.length > 0) throw new SettingsError(problems)
}

/**
 * Finds a port of 127.0.0.1 on which nobody listens, and which no other process of Millrace is given while this one
 * runs. A process never gets the same port twice.
 *
 * Another program may still take it before it is used; on macOS another process of Millrace, too.
 */
export async function pickFreePort (): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = FIRST_PORT + next++ % PORTS
    if (await claimPort(port) && await isPortFree(port, '127.0.0.1')) return port
  }
  throw new Error(`found no free port in ${ATTEMPTS} attempts between ${FIRST_PORT} and ${FIRST_PORT + PORTS}`)
}

/**
 * Starts something on the given port, or for port 0 on a free one. When it cannot start because another program took
 * the free port first, it tries another port.
 */
export async function startOnPort<T> (port: number, start: (port: number) => Promise<T>): Promise<T> {
  if (port !== 0) return await start(port)
  for (let attempt = 1; ; attempt++) {
    const free = await pickFreePort()
    try {
      return await start(free)
    } catch (error) {
      const portWasTaken = error instanceof ServiceStartError && !(await isPortFree(free, '127.0.0.1'))
      if (!portWasTaken || attempt === 3) throw error
    }
  }
}

function listPorts ({ ports, host, clickhouseHost, external }: StackSettings): WantedAddress[] {
  const local = { host: '127.0.0.1', hostSetting: 'MILLRACE_HOST' } as const
  const wanted: WantedAddress[] = [
    { port: ports.origin, host, hostSetting: 'MILLRACE_HOST', setting: 'MILLRACE_PORT', what: 'ingest, the origin for SDKs' },
    { ...local, port: ports.api, setting: 'MILLRACE_API_PORT', what: 'the API' },
    { ...local, port: ports.pipeline, setting: 'MILLRACE_PIPELINE_PORT', what: 'the pipeline' }
  ]
  if (external.clickhouseUrl === undefined) {
    wanted.push({
      port: ports.clickhouse, host: clickhouseHost, hostSetting: 'MILLRACE_CLICKHOUSE_HOST', setting: 'MILLRACE_CLICKHOUSE_PORT', what: 'ClickHouse'
    })
  }
  if (external.natsUrl === undefined) {
    wanted.push({ ...local, port: ports.nats, setting: 'MILLRACE_NATS_PORT', what: 'nats-server' })
  }
  if (external.databaseUrl === undefined) {
    wanted.push({ ...local, port: ports.postgres, setting: 'MILLRACE_POSTGRES_PORT', what: 'Postgres' })
  }
  return wanted
}

/** Where clients on this machine reach what listens on an address, as a URL has it. */
export function toClientHost (host = '127.0.0.1'): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}

/**
 * Marks a port as taken until this process ends, however it ends: a socket with an abstract name belongs to one process
 * and is on no disk (unix(7)).
 */
async function claimPort (port: number): Promise<boolean> {
  if (process.platform !== 'linux') return true
  return await new Promise((resolve) => {
    const claim = createServer()
    claim.once('error', () => resolve(false))
    claim.listen(`\0millrace-port-${port}`, () => resolve(true)).unref()
  })
}

async function isPortFree (port: number, host: string): Promise<boolean> {
  return await tryPort(port, host) === undefined
}

/** The code of the error with which a server could not listen there now; undefined when it could. */
async function tryPort (port: number, host: string): Promise<string | undefined> {
  return await new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}
