import { spawn } from 'node:child_process'
import { mkdirSync, openSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import http from 'node:http'
import { testEnvironment } from './environments.ts'
import { readProcessIdentity } from '../../embedded/supervisor/processes/recorded-processes.ts'

const FOLDER = path.resolve(import.meta.dirname, '..', '..', '.tap')
const START_TIMEOUT_MS = 180_000
const STOP_TIMEOUT_MS = 60_000

/** Where the process that holds the services listens. */
interface ServicesAddress {
  port: number
  pid: number
}

/**
 * The file with the address, named after the process for which the services run: the test runner, or a test file
 * that was started alone. Several runs at once have several.
 */
export function addressFileOf (pid: number): string {
  return path.join(FOLDER, `services-${pid}.json`)
}

/** Reads the address; undefined when no services run for that process. */
export function readServicesAddress (pid: number): ServicesAddress | undefined {
  try {
    return JSON.parse(readFileSync(addressFileOf(pid), 'utf8')) as ServicesAddress
  } catch {
    return undefined
  }
}

/**
 * Starts the process that holds the services. It ends by itself when `watchedPid` is gone.
 *
 * @throws when it does not come up, naming its log.
 */
export async function startSharedServices (watchedPid: number): Promise<ServicesAddress> {
  mkdirSync(FOLDER, { recursive: true })
  const file = addressFileOf(watchedPid)
  // Left over from a killed run whose number was given again.
  rmSync(file, { force: true })
  const logFile = path.join(FOLDER, 'services.log')
  const log = openSync(logFile, 'w')
  const main = path.join(import.meta.dirname, 'services-main.ts')
  // The runner instruments every process below a test by this variable; see `run-uninstrumented.js`.
  const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, main, file, String(watchedPid)], {
    detached: true,
    // With what tests have compiled: the system that they share runs the same modules.
    env: testEnvironment(),
    stdio: ['ignore', log, log]
  })
  child.unref()
  const deadline = Date.now() + START_TIMEOUT_MS
  while (child.exitCode === null && Date.now() < deadline) {
    const address = readServicesAddress(watchedPid)
    if (address !== undefined) return address
    await delay(20)
  }
  throw new Error(`the services of the tests did not start; see ${logFile}`)
}

/** Ends the services of a process and waits until they are gone. */
export async function stopSharedServices (watchedPid: number): Promise<void> {
  const address = readServicesAddress(watchedPid)
  if (address === undefined) return
  process.kill(address.pid, 'SIGTERM')
  const deadline = Date.now() + STOP_TIMEOUT_MS
  while (await readProcessIdentity(address.pid) !== undefined) {
    if (Date.now() > deadline) throw new Error('the services of the tests did not end')
    await delay(20)
  }
}

/** Ends the whole system that the tests of a run shared, when none of the others needs it. */
export async function endSharedStack (watchedPid: number): Promise<void> {
  const address = readServicesAddress(watchedPid)
  if (address !== undefined) await fetch(`http://127.0.0.1:${address.port}/stack`, { method: 'DELETE' })
}

/** What reaches the whole system that the tests of a run share. */
export interface SharedStack {
  url: string
  personalApiKey: string
  clickhouseUrl: string
  databaseUrl: string
  natsUrl: string
  dataDir: string
}

let address: Promise<ServicesAddress> | undefined

/**
 * The URL of a store that the tests of this run share; it is started now if no test asked before.
 *
 * @throws when it cannot run here, with the reason. Tests never skip silently.
 */
export async function askForService (name: 'postgres' | 'clickhouse'): Promise<string> {
  return (await ask<{ url: string }>(name)).url
}

/** The same of the whole system; what reaches it. */
export async function askForStack (): Promise<SharedStack> {
  return await ask('stack')
}

/**
 * Under the runner the services belong to the run. A test file that is started alone (`node x.test.ts`) starts them for
 * itself, once.
 */
async function ask<T> (name: string): Promise<T> {
  if (process.env.MILLRACE_TEST_NO_SERVICES === '1') throw new Error(`a unit test asks for ${name}; see test/kinds.ts`)
  address ??= Promise.resolve(readServicesAddress(process.ppid) ?? startSharedServices(process.pid))
  const { port } = await address
  const answer = await getJson<T | { error: string }>(`http://127.0.0.1:${port}/${name}`)
  if (typeof answer === 'object' && answer !== null && 'error' in answer) throw new Error(`${name} is needed by this test and did not start: ${answer.error}`)
  return answer as T
}

async function getJson<T> (url: string): Promise<T> {
  return await new Promise((resolve, reject) => {
    // No pool: an idle connection would keep the test process alive.
    http.get(url, { agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => { text += chunk })
      response.on('end', () => resolve(JSON.parse(text) as T))
    }).once('error', reject)
  })
}
