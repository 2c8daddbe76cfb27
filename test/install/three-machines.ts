/**
 * `npm run check:machines`: walks "Three machines" of docs/run/install.md: its commands and files, as they stand there
 * and in order, on three machines that are network namespaces; then pulls the plug of a machine, and of the one with
 * the stores, and sends events meanwhile. Takes a minute.
 *
 * Not as on the page: the programs are those of this clone; `apt` and `systemctl` are not run, what they would start is
 * started with the user and settings of its unit; in place of a ClickHouse server the embedded one listens, which has
 * the logins `millrace` and `analyst` alone. Linux and root only.
 */
import { randomUUID } from 'node:crypto'
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { findNatsServer } from '../../embedded/nats/find-nats-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { type Machine, openNetwork, startMachine } from './machine.ts'
import { createLogins, runSql, runStores, startStores, withPasswords } from './machine-stores.ts'
import { enterNamespaces, INSIDE } from './namespaces.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')
const SECTION = 'Three machines'
const ADDRESSES = ['10.0.0.1', '10.0.0.2', '10.0.0.3']
const PROXY = '10.0.0.9'
const NAMES = ['one', 'two', 'three']
/** Memory, so that an overlay may be on it and nothing of a check remains. */
const TEMPORARY = '/dev/shm'
const READY_MS = 120_000

let failures = 0

if (process.argv[2] === INSIDE) {
  await walk(process.argv[3]!)
  process.exit(failures === 0 ? 0 : 1)
} else {
  process.exitCode = enterNamespaces({ file: import.meta.filename, under: TEMPORARY, hasNetwork: true })
}

/** A block of the page: a file, by the path in its first line, or commands. */
interface Block {
  file: string | null
  lines: string[]
}

async function walk (folder: string): Promise<void> {
  const blocks = readBlocks()
  openNetwork(PROXY)
  const { shims, cwd } = prepareFolders(folder)
  const starting = ADDRESSES.map(async (address) => await startMachine({ address, folder, shims, cwd }))
  const machines = await Promise.all(starting)
  const nats = await findNatsServer({ env: process.env, dataDir: folder })
  for (const machine of machines) copyFileSync(nats, machine.file('/usr/sbin/nats-server'))
  const [first] = machines as [Machine]
  const services = new Map<Machine, string[]>()
  let keys = ''

  for (const { file, lines } of blocks) {
    if (file === 'pg_hba.conf') {
      await startStores(first, path.join(folder, 'stores'), lines)
      report('Postgres and ClickHouse answer on machine 1', true)
    } else if (file !== null) {
      for (const machine of machines) machine.write(file, fill(lines, machine.address))
    } else if (lines[0]?.startsWith('CREATE ')) {
      await runSql(first, lines)
      report(`Postgres: ${lines.join(' ')}`, true)
    } else {
      // Tables, logins and the look are for one machine.
      const isForOne = lines.some((line) => line.startsWith('export '))
      for (const line of lines) {
        process.stdout.write(`\n$ ${line}\n`)
        const runs = (isForOne ? [first] : machines).map(async (machine) => await runLine(machine, line, services))
        keys += (await Promise.all(runs)).join('')
      }
    }
  }
  await breakMachines(machines, { services, printed: keys, dataDir: path.join(folder, 'stores') })
}

function report (what: string, isRight: boolean): void {
  if (!isRight) failures++
  process.stdout.write(`${isRight ? '  ok' : '  NOT OK'}  ${what}\n`)
}

/** What is `xml` is for a ClickHouse server. */
function readBlocks (): Block[] {
  const page = readFileSync(path.join(ROOT, 'docs', 'run', 'install.md'), 'utf8')
  const section = page.split(/^## /m).find((each) => each.startsWith(`${SECTION}\n`)) ?? ''
  return [...section.matchAll(/^```(sh|sql)\n([^]*?)^```/gm)].map(([, , text = '']) => {
    const lines = text.trim().split('\n')
    const [, file = null] = /^# (\S*\/\S+\.env|pg_hba\.conf)\b/.exec(lines[0]!) ?? []
    return { file, lines: file === null ? lines : lines.slice(1) }
  })
}

/** A folder with the package in it, and programs in place of those that would reach the machine or the network. */
function prepareFolders (folder: string): { shims: string, cwd: string } {
  const [shims, cwd] = [path.join(folder, 'shims'), path.join(folder, 'opt')]
  const scripts = {
    sudo: 'exec "$@"', apt: 'echo "apt is not run: $*"', systemctl: 'true',
    npx: `shift; exec ${process.execPath} ${path.join(ROOT, 'cli', 'millrace.js')} "$@"`
  }
  mkdirSync(shims)
  for (const [name, script] of Object.entries(scripts)) writeFileSync(path.join(shims, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  mkdirSync(path.join(cwd, 'node_modules'), { recursive: true })
  symlinkSync(ROOT, path.join(cwd, 'node_modules', 'millrace'))
  return { shims, cwd }
}

/** The lines with passwords, for a machine: as the page says, its own address, and first in lists. */
function fill (lines: readonly string[], address = ADDRESSES[0]!): string {
  const others = ADDRESSES.filter((each) => each !== address)
  return lines.map((line) => {
    const filled = withPasswords(line)
    if (/^MILLRACE_(HOST|API_URL)=/.test(line)) return `${filled.replace(ADDRESSES[0]!, address)}\n`
    if (/^MILLRACE_\w+_URLS=/.test(line)) {
      const [name, list = ''] = filled.split('=') as [string, string]
      const urls = list.split(',')
      return `${name}=${[...urls.filter((url) => url.includes(address)), ...urls.filter((url) => !url.includes(address))].join(',')}\n`
    }
    if (line.startsWith('NATS_NAME=')) return `${filled.replace(NAMES[0]!, NAMES[ADDRESSES.indexOf(address)]!)}\n`
    if (line.startsWith('NATS_MACHINES=')) return `${filled.replace(ADDRESSES[1]!, others[0]!).replace(ADDRESSES[2]!, others[1]!)}\n`
    return `${filled}\n`
  }).join('')
}

async function runLine (machine: Machine, line: string, services: Map<Machine, string[]>): Promise<string> {
  const [, started] = /systemctl enable --now (.*)$/.exec(line) ?? []
  if (started !== undefined) {
    const names = started.split(' ')
    services.set(machine, [...services.get(machine) ?? [], ...names])
    for (const name of names) machine.startUnit(name)
    if (names.includes('millrace@ingest')) for (const port of [8002, 8001, 8000]) await waitUntilReady(machine, port)
    return ''
  }
  if (line === 'npx millrace logins create') {
    await createLogins(machine)
    report('the logins of Postgres are created; the embedded ClickHouse server makes none', true)
    return ''
  }
  const { code, printed } = await machine.run(withPasswords(line))
  process.stdout.write(printed.replaceAll(/^/gm, '    ').trimEnd().concat('\n'))
  report(`${machine.address}: done`, code === 0)
  return printed
}

async function comesTrue (isTrue: () => Promise<boolean>): Promise<boolean> {
  return await waitFor(isTrue, { timeoutMs: READY_MS }).then(() => true, () => false)
}

async function waitUntilReady (machine: Machine, port: number): Promise<void> {
  const url = `http://${machine.address}:${port}/_readiness`
  report(`${url} answers ${PROXY}`, await comesTrue(async () => (await fetch(url)).ok))
}

/** What the walk leaves: the services of each machine, what the commands printed, the folder of the stores. */
interface Walked {
  services: ReadonlyMap<Machine, string[]>
  printed: string
  dataDir: string
}

/** Events while machine 3, then machine 1 with the stores, is away: each is answered, and stored once. */
async function breakMachines (machines: readonly Machine[], { services, printed, dataDir }: Walked): Promise<void> {
  const [projectKey] = /phc_\w+/.exec(printed) ?? []
  const [first, second, third] = machines as [Machine, Machine, Machine]
  const sent: string[] = []
  const send = async (machine: Machine, count: number): Promise<boolean> => {
    const batch = Array.from({ length: count }, () => ({ event: 'walked', distinct_id: 'someone', uuid: randomUUID() }))
    const answer = await fetch(`http://${machine.address}:8000/batch/`, {
      method: 'POST', body: JSON.stringify({ api_key: projectKey, batch }), headers: { 'content-type': 'application/json' }, signal: AbortSignal.timeout(15_000)
    }).catch(() => null)
    if (answer?.status !== 200) return false
    sent.push(...batch.map(({ uuid }) => uuid))
    return true
  }
  const areStored = async (what: string): Promise<void> => {
    const isStored = async (): Promise<boolean> => (await countStored()) === `${sent.length}\t${sent.length}`
    report(`${what}: ${sent.length} events are stored, each once`, await comesTrue(isStored))
  }
  const start = (machine: Machine): void => { for (const name of services.get(machine)!) machine.startUnit(name) }

  process.stdout.write('\nAll machines\n')
  for (const machine of machines) report(`${machine.address} takes events`, await send(machine, 100))
  await areStored('from all machines')
  const seen = await first.run("npx millrace status --json --ingest http://10.0.0.2:8000 --pipeline http://10.0.0.3:8002 --api http://10.0.0.2:8001 | grep -c '\"status\": \"ok\"'")
  report(`machine 1 sees the tiers of the others (${seen.printed.trim()})`, seen.code === 0)

  process.stdout.write('\nMachine 3 is away\n')
  await third.pullPlug()
  for (const machine of [first, second]) report(`${machine.address} takes events`, await comesTrue(async () => await send(machine, 100)))
  await areStored('without machine 3')
  start(third)
  for (const port of [8002, 8001, 8000]) await waitUntilReady(third, port)

  process.stdout.write('\nMachine 1, with the stores, is away\n')
  await first.pullPlug()
  for (const machine of [second, third]) {
    report(`${machine.address} takes events`, await comesTrue(async () => await send(machine, 100)))
    const flags = await fetch(`http://${machine.address}:8000/flags/?v=2`, {
      method: 'POST', body: JSON.stringify({ api_key: projectKey, distinct_id: 'someone' }), headers: { 'content-type': 'application/json' }
    })
    report(`${machine.address} answers flags (${flags.status})`, flags.ok)
  }
  start(first)
  await runStores(first, dataDir)
  await areStored('with machine 1 back')
}

async function countStored (): Promise<string> {
  const query = "SELECT count(), uniqExact(uuid) FROM events WHERE event = 'walked'"
  const answer = await fetch(`http://${ADDRESSES[0]}:8123/?database=millrace`, {
    method: 'POST', body: query, headers: { authorization: `Basic ${btoa('analyst:5-analyst')}` }
  })
  return (await answer.text()).trim()
}
