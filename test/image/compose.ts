/** The compose files of deploy/, with the commands of docs/run/install.md. */
import { execFile, spawn } from 'node:child_process'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { fetchDebianPackage } from '../../embedded/supervisor/fetch-debian-package.ts'
import { ROOT } from '../package/installed-package.ts'
import { freePorts } from '../support/local-ports.ts'
import { waitFor } from '../support/wait-for.ts'
import type { Report } from './all-in-one.ts'
import { type Engine, openContainer, waitUntilReady } from './container-engine.ts'
import { countEvents, readPrinted, sendEvent } from './first-session.ts'

interface ComposeLab {
  engine: Engine
  report: Report
  /** Holds a copy of `deploy/`, in which passwords are written. */
  folder: string
  standIns: boolean
}

interface Compose {
  /** @returns what it wrote to standard output. @throws with all that it wrote. */
  run (...args: string[]): Promise<string>
}

const runFile = promisify(execFile)
/** Letters and digits, as the example says; a number is awkward to nats-server. */
const PASSWORD = '5ecret'
const PLUGIN = 'usr/libexec/docker/cli-plugins/docker-compose'
/** Releases of Debian with the second generation of docker compose. */
const SUITES = ['forky', 'sid']

export async function checkCompose (lab: ComposeLab): Promise<void> {
  const { engine, folder } = lab
  const socket = path.join(folder, 'engine.sock')
  const service = engine.name === 'podman' ? spawn('podman', ['system', 'service', '--time', '0', `unix://${socket}`], { stdio: 'ignore' }) : undefined
  try {
    const env = service === undefined ? process.env : { ...process.env, DOCKER_HOST: `unix://${socket}` }
    const program = await findCompose(lab)
    const open = (files: readonly string[]): Compose => {
      const project = ['--project-name', `millrace-check-${process.pid}`, ...files.flatMap((file) => ['--file', file])]
      return {
        async run (...args) {
          const [command, ...first] = program
          const all = [...first, ...project, ...args]
          return (await runFile(command, all, { env, cwd: folder, maxBuffer: 64 * 1024 * 1024 })).stdout
        }
      }
    }
    await checkAllInOneFile(lab, open)
    await checkServers(lab, open)
  } finally {
    service?.kill('SIGTERM')
  }
}

type Open = (files: readonly string[]) => Compose

async function checkAllInOneFile ({ engine, report, folder }: ComposeLab, open: Open): Promise<void> {
  const [port, sqlPort] = await freePorts(2) as [number, number]
  writeFileSync(path.join(folder, 'ports.yaml'), `services:\n  millrace:\n    ports: !override ['127.0.0.1:${port}:8000', '127.0.0.1:${sqlPort}:8123']\n`)
  writeFileSync(path.join(folder, 'deploy', 'millrace.env'), `MILLRACE_PUBLIC_URL=http://localhost:${port}/\n`)
  const compose = open(['deploy/compose.all-in-one.yaml', 'ports.yaml'])
  try {
    await compose.run('up', '--detach')
    const container = openContainer(engine, (await compose.run('ps', '--quiet', 'millrace')).trim())
    const printed = readPrinted(await waitUntilReady(engine, container))
    report(`compose.all-in-one.yaml: its link leads where it is published (${printed.consoleUrl.replace(/#.*/, '')})`,
      printed.consoleUrl.startsWith(`http://localhost:${port}/console#`), printed.consoleUrl)
    await sendEvent(`localhost:${port}`, printed, 'composed')
    report('and an event is stored', (await countEvents(`127.0.0.1:${sqlPort}`, printed, ['composed'])).composed === 1)
  } finally {
    await compose.run('down', '--volumes').catch(() => {})
  }
}

/** compose.yaml as the page has it, twice: the second time its volumes are there. */
async function checkServers (lab: ComposeLab, open: Open): Promise<void> {
  const { report, folder, standIns } = lab
  const [port, sqlPort] = await freePorts(2) as [number, number]
  const ports = Object.entries({ ingest: `${port}:8000`, clickhouse: `${sqlPort}:8123` })
    .map(([name, published]) => `  ${name}:\n    ports: !override ['127.0.0.1:${published}']\n`)
  writeFileSync(path.join(folder, 'ports.yaml'), `services:\n${ports.join('')}`)
  const example = readFileSync(path.join(folder, 'deploy', 'compose.env.example'), 'utf8')
  writeFileSync(path.join(folder, 'deploy', '.env'), example.replaceAll(/^(\w+_PASSWORD)=$/gm, (_, name: string) => `${name}=${PASSWORD}-${name.toLowerCase()}`))
  if (standIns) copyFileSync(path.join(ROOT, 'test', 'image', 'stand-ins.yaml'), path.join(folder, 'stand-ins.yaml'))
  const compose = open(['deploy/compose.yaml', ...standIns ? ['stand-ins.yaml'] : [], 'ports.yaml'])
  const up = async (): Promise<void> => {
    await whileHealthIsAsked(lab, compose, async () => {
      await compose.run('up', '--detach')
      await waitUntilHealthy(lab, compose)
    })
  }
  const name = `compose.yaml${standIns ? ', with stand-ins' : ''}`
  try {
    await up()
    report(`${name}: every service that stays is healthy`, true)
    const key = (await runCli(lab, compose, [], ['keys', 'bootstrap', 'me@example.com'])).trim()
    report(`keys bootstrap makes the first key (${key.slice(0, 7)}...)`, /^phx_\w+$/.test(key), key)
    const created = await runCli(lab, compose, ['--env', `MILLRACE_KEY=${key}`], ['projects', 'create', 'My project'])
    const [projectApiKey = ''] = /phc_\w+/.exec(created) ?? []
    report('projects create', projectApiKey !== '', created)
    const printed = { projectApiKey, analyst: `analyst:${PASSWORD}-clickhouse_analyst_password`, consoleUrl: '' }
    await sendEvent(`127.0.0.1:${port}`, printed, 'composed')
    report('an event is stored, and the analyst sees it', (await countEvents(`127.0.0.1:${sqlPort}`, printed, ['composed'])).composed === 1)
    await compose.run('down')
    await up()
    await waitFor(async () => (await fetch(`http://127.0.0.1:${port}/_readiness`)).ok)
    await sendEvent(`127.0.0.1:${port}`, printed, 'after down and up')
    const found = await countEvents(`127.0.0.1:${sqlPort}`, printed, ['composed', 'after down and up'])
    report('both events are there after down and up', found.composed === 1 && found['after down and up'] === 1, JSON.stringify(found))
  } catch (error) {
    report(`${name} ${error instanceof Error ? error.message : String(error)}`, false, await compose.run('logs', '--tail', '15').catch(String))
  } finally {
    await compose.run('down', '--volumes').catch(() => {})
  }
}

/** From the log of the container: podman passes on to compose only what is written after it is attached. */
async function runCli (
  { engine }: ComposeLab, compose: Compose, options: string[], command: string[]
): Promise<string> {
  const name = `millrace-check-cli-${process.pid}`
  await compose.run('run', '--name', name, ...options, 'cli', ...command)
  const written = await engine.run('logs', name)
  await engine.run('rm', name)
  return written
}

async function waitUntilHealthy ({ engine }: ComposeLab, compose: Compose): Promise<void> {
  for (const service of ['postgres', 'clickhouse', 'nats', 'ingest', 'pipeline', 'api']) {
    const id = (await compose.run('ps', '--quiet', service)).trim()
    await waitFor(async () => /"Status": ?"healthy"/.test(await engine.run('inspect', '--format', '{{json .State}}', id)), { timeoutMs: 120_000 })
  }
}

/** Podman uses systemd for health checks; without systemd nothing runs them. */
async function whileHealthIsAsked (
  { engine }: ComposeLab, compose: Compose, run: () => Promise<unknown>
): Promise<void> {
  const ask = async (): Promise<void> => {
    const ids = (await compose.run('ps', '--quiet')).split('\n').filter(Boolean)
    await Promise.all(ids.map(async (id) => await engine.try('healthcheck', 'run', id)))
  }
  const timer = engine.name === 'podman' ? setInterval(() => { ask().catch(() => {}) }, 3000) : undefined
  try {
    await run()
  } finally {
    clearInterval(timer)
  }
}

/** That of docker, else the plugin of Debian's package, which runs by itself. */
async function findCompose ({ engine, folder }: ComposeLab): Promise<[string, ...string[]]> {
  if (engine.name === 'docker' && (await engine.try('compose', 'version')).code === 0) return ['docker', 'compose']
  const binary = path.join(folder, 'docker-compose')
  await fetchDebianPackage({ name: 'docker-compose', suites: SUITES, files: { [PLUGIN]: binary } })
  return [binary]
}
