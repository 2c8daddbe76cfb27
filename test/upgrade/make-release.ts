import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { startTierProcess } from '../support/start-tier-process.ts'
import type { TestContext } from '../support/test-context.ts'
import { waitFor } from '../support/wait-for.ts'

const REPOSITORY = path.resolve(import.meta.dirname, '..', '..')

/** What a release consists of, as far as an upgrade is concerned. */
const PARTS = ['engines', 'ingest', 'pipeline', 'platform', 'schema', 'package.json']

type Database = 'postgres' | 'clickhouse'

/** How another release differs from this one. */
export interface ReleaseChanges {
  /** Further migrations: file name and SQL. */
  migrations?: Record<Database, Record<string, string>>
  /** A column that its frames carry and this release does not know. */
  column?: { name: string, promotes: string }
}

/** A version of Millrace in a folder, whose processes can be run beside those of others. */
export interface Release {
  /** Migrates the databases to it. */
  migrate: (env: NodeJS.ProcessEnv) => Promise<{ code: number | null, output: string }>
  /** Starts a tier and waits until it is ready; it ends with the test. */
  start: (tier: 'ingest' | 'pipeline', env: NodeJS.ProcessEnv) => Promise<RunningTier>
}

export interface RunningTier {
  url: string
  /** Ends it as an orchestrator does. */
  end: () => Promise<void>
}

/** This release, as it is in the repository. */
export function thisRelease (t: TestContext): Release {
  return releaseIn(t, REPOSITORY)
}

function releaseIn (t: TestContext, root: string): Release {
  return {
    migrate: async (env) => await migrate(root, env),
    start: async (tier, env) => await start(t, root, { tier, env })
  }
}

/** Makes another release: a copy of this one with changes. It is removed with the test. */
export async function makeRelease (t: TestContext, changes: ReleaseChanges): Promise<Release> {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-release-'))
  t.teardown(async () => { await rm(root, { recursive: true, force: true }) })
  for (const part of PARTS) {
    const options = { recursive: true, filter: (source: string) => !source.endsWith('.test.ts') }
    await cp(path.join(REPOSITORY, part), path.join(root, part), options)
  }
  await symlink(path.join(REPOSITORY, 'node_modules'), path.join(root, 'node_modules'))
  for (const database of ['postgres', 'clickhouse'] as const) {
    const folder = path.join(root, 'schema', database)
    const further = Object.entries(changes.migrations?.[database] ?? {})
    for (const [file, sql] of further) await writeFile(path.join(folder, file), sql)
  }
  if (changes.column !== undefined) await addColumn(path.join(root, 'schema', 'wire', 'event-row.ts'), changes.column)
  return releaseIn(t, root)
}

async function addColumn (file: string, { name, promotes }: NonNullable<ReleaseChanges['column']>): Promise<void> {
  const column = `{ name: '${name}', type: 'String', promotes: '${promotes}' }\n]`
  const changed = (await readFile(file, 'utf8'))
    .replace(/ROW_LAYOUT = (\d+)/, (_, layout: string) => `ROW_LAYOUT = ${Number(layout) + 1}`)
    .replace('\n] as const satisfies readonly EventColumn', () => `,\n  ${column} as const satisfies readonly EventColumn`)
  if (!changed.includes(column)) throw new Error('schema/wire/event-row.ts has changed: update this script')
  await writeFile(file, changed)
}

async function migrate (root: string, env: NodeJS.ProcessEnv): Promise<{ code: number | null, output: string }> {
  const migrations = pathToFileURL(path.join(root, 'schema', 'migrate', 'migrate-all.ts')).href
  // The command needs the whole tree, of which a release here has the half.
  const code = `import { migrateAll } from '${migrations}'
    const { DATABASE_URL: databaseUrl, CLICKHOUSE_URL: clickhouseUrl } = process.env
    const applied = await migrateAll({ databaseUrl, clickhouseUrl })
    console.log(applied.length > 0 ? 'applied ' + applied.join(', ') : 'nothing to migrate')`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', code], { env: withBase(env), stdio: 'pipe' })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => { output += chunk.toString() })
  const [exitCode] = await once(child, 'close') as [number | null]
  return { code: exitCode, output }
}

async function start (
  t: TestContext, root: string, { tier, env }: { tier: 'ingest' | 'pipeline', env: NodeJS.ProcessEnv }
): Promise<RunningTier> {
  const { child, url, exited } = await startTierProcess(t, { tier, root, env })
  await waitFor(async () => (await fetch(`${url}/_readiness`)).status === 200)
  return {
    url,
    end: async () => {
      child.kill('SIGTERM')
      await exited
    }
  }
}

/** The test runner would instrument every process; see `test/support/run-uninstrumented.js`. */
function withBase (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  return { PATH, HOME, ...NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }, ...env }
}
