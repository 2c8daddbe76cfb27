/**
 * Makes a backup of a version of Millrace with that version's own `backup` command, to be kept in `backups/`:
 *
 *     npx node test/upgrade/make-backup.ts CHECKOUT FOLDER
 *
 * CHECKOUT is a folder with the sources of that version and its packages in `node_modules`. It is started on a data
 * directory of its own, planted (`planted-data.ts`), backed up into FOLDER, and ended.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { withoutSettings } from '../support/environments.ts'
import { waitFor } from '../support/wait-for.ts'
import { PLANTED_COMMANDS, PLANTED_TAGS, PLANTED_EVENTS, PLANTED_FLAG, PLANTED_KEYS, plantedBatch } from './planted-data.ts'

interface Addresses {
  baseUrl: string
  clickhouseUrl: string
}

if (import.meta.main) {
  const [checkout, folder] = process.argv.slice(2)
  if (checkout === undefined || folder === undefined) throw new Error('usage: make-backup.ts CHECKOUT FOLDER')
  await makeBackup(path.resolve(checkout), path.resolve(folder))
}

async function makeBackup (checkout: string, folder: string): Promise<void> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'millrace-old-'))
  const env = {
    ...withoutSettings(process.env),
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_PORT: '0', MILLRACE_CLICKHOUSE_PORT: '0', MILLRACE_NATS_PORT: '0', MILLRACE_POSTGRES_PORT: '0',
    MILLRACE_PROJECT_API_KEY: PLANTED_KEYS.project,
    MILLRACE_PERSONAL_API_KEY: PLANTED_KEYS.personal,
    npm_lifecycle_event: 'start'
  }
  const cli = async (args: readonly string[]): Promise<void> => {
    const child = spawn(process.execPath, [path.join(checkout, 'cli', 'main.ts'), ...args], { env, stdio: ['ignore', 'inherit', 'inherit'] })
    const [code] = await once(child, 'exit') as [number | null]
    if (code !== 0) throw new Error(`millrace ${args.join(' ')} ended with ${code}`)
  }
  const stack = spawn(process.execPath, [path.join(checkout, 'deploy', 'local', 'main.ts')], { env, stdio: ['ignore', 'ignore', 'inherit'] })
  try {
    const addresses = await waitFor(async () =>
      JSON.parse(await readFile(path.join(dataDir, 'addresses.json'), 'utf8')) as Addresses, { timeoutMs: 60_000 })
    await plant(addresses, cli)
    await cli(['backup', folder])
  } finally {
    stack.kill('SIGTERM')
    if (stack.exitCode === null) await once(stack, 'exit')
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function plant (
  { baseUrl, clickhouseUrl }: Addresses, cli: (args: readonly string[]) => Promise<void>
): Promise<void> {
  const authorization = `Bearer ${PLANTED_KEYS.personal}`
  const ask = async <T>(method: string, route: string, body?: string): Promise<T> => {
    const response = await fetch(new URL(route, baseUrl), {
      method, headers: { authorization, 'content-type': 'application/json' }, ...body === undefined ? {} : { body }
    })
    if (!response.ok) throw new Error(`${method} ${route}: ${response.status} ${await response.text()}`)
    return await response.json() as T
  }
  const count = async (query: string): Promise<number> => {
    const url = new URL(clickhouseUrl)
    const headers = { authorization: `Basic ${btoa(`${url.username}:${url.password}`)}` }
    const response = await fetch(`${url.origin}/?database=${url.pathname.slice(1)}`, { method: 'POST', headers, body: query })
    return Number(await response.text())
  }
  for (const command of PLANTED_COMMANDS) await cli(command)
  await ask('POST', '/batch/', plantedBatch())
  await ask('POST', '/api/projects/1/feature_flags/', JSON.stringify(PLANTED_FLAG))
  await waitFor(async () => await count('SELECT count() FROM events') === PLANTED_EVENTS.length, { timeoutMs: 30_000 })
  await waitFor(async () => await count('SELECT count() FROM persons') >= 3, { timeoutMs: 30_000 })
  const definition = await waitFor(async () => {
    const { results } = await ask<{ results: { id: string, name: string }[] }>('GET', '/api/projects/1/event_definitions/')
    return results.find(({ name }) => name === 'order paid')
  }, { timeoutMs: 60_000 })
  await ask('PATCH', `/api/projects/1/event_definitions/${definition.id}/`, JSON.stringify({ tags: PLANTED_TAGS }))
}
