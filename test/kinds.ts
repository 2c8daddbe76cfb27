import { existsSync, readFileSync } from 'node:fs'
import { glob } from 'node:fs/promises'
import path from 'node:path'

const ROOT = path.join(import.meta.dirname, '..')

/**
 * The layer of a test:
 *
 * - `system`: named `x.system.test.ts`; runs by `npm run test:all` only;
 * - `whole path`: imports, directly or through others, what starts the whole system;
 * - `service`: the same of Postgres, ClickHouse, NATS, the engine of ClickHouse, or a process of ours;
 * - `unit`: none of these.
 */
export type TestKind = 'unit' | 'service' | 'whole path' | 'system'
export const TEST_KINDS: readonly TestKind[] = ['unit', 'service', 'whole path', 'system']

/** The tests of the whole path that `npm test` runs: each promise once. All others are named `x.system.test.ts`. */
export const WHOLE_PATHS: readonly string[] = [
  'cli/backup/backup.test.ts', 'test/console/whole-story.test.ts', 'test/contract/contract.test.ts',
  'test/events/identity.test.ts', 'test/events/large-batch.test.ts', 'test/events/poisoned-event.test.ts',
  'test/sdk/capture.test.ts'
]

/** Modules that start a whole system. A file that has moved is found by `kinds.test.ts`. */
export const SYSTEMS: readonly string[] = [
  'test/start-stack.ts', 'test/cluster/cluster-system.ts', 'test/faults/system/fault-system.ts',
  'embedded/supervisor/testing/run-main.ts', 'test/package/installed-package.ts'
]

/**
 * The package of the embedded ClickHouse server. It imports nothing of ours, so `npm run test:chdb-server` runs its
 * tests when it has changed.
 */
export const EMBEDDED = 'chdb-server'
/** Those that `npm test` runs, too: what the rest of the system counts on. */
export const EMBEDDED_CORE: readonly string[] = [
  'analyst/analyst', 'options', 'http/read-query-body', 'statement/read-statement'
].map((name) => `${EMBEDDED}/${name}.test.ts`)
/** Those that `npm run test:system` runs, too. */
export const EMBEDDED_SYSTEM: readonly string[] = ['http/http', 'http/clickhouse-client', 'insert/run-insert', 'insert/flush-tokens']
  .map((name) => `${EMBEDDED}/${name}.test.ts`)

/** Modules that start a service are here, load the engine, or name the entry of a process that they start. */
export const SERVICES: readonly string[] = ['embedded/postgres/', 'embedded/nats/', 'embedded/supervisor/', 'chdb-server/testing/start-test-server.ts']
const ENGINE = /^import [^']* from '(?:chdb|chdb-server\/testing)'/m
const ENTRY = /['/][\w-]*main\.ts'/

/** Tests that measure or change their process, and so have it to themselves. */
export const ALONE: readonly string[] = [
  'engines/body/storable-text.test.ts', 'ingest/server/many-connections.system.test.ts',
  'test/security/hostile-clients.system.test.ts'
]

/** Imports of our own files that remain at run time. */
const IMPORT = /^(?:import|export)\s(?!type\b)([^'"]*?)(?:\bfrom )?'(\.[^']+\.ts)'|\bimport\('(\.[^']+\.ts)'\)/gm

interface Module {
  imports: string[]
  startsService: boolean
}

/** Tells the kinds of tests; reads each file once. */
export function createTestKinds (root: string = ROOT): { kindOf: (file: string) => TestKind } {
  const modules = new Map<string, Module>()

  function load (file: string): Module {
    const known = modules.get(file)
    if (known !== undefined) return known
    const text = readFileSync(path.join(root, file), 'utf8')
    const module = {
      imports: listImports(root, file, text),
      startsService: SERVICES.some((folder) => file.startsWith(folder)) || ENGINE.test(text) || ENTRY.test(text)
    }
    modules.set(file, module)
    return module
  }

  return {
    kindOf (file) {
      if (isSystemTest(file)) return 'system'
      const reached = new Set([file])
      for (const each of reached) for (const imported of load(each).imports) reached.add(imported)
      if (SYSTEMS.some((system) => reached.has(system))) return 'whole path'
      return [...reached].some((each) => load(each).startsService) ? 'service' : 'unit'
    }
  }
}

/** Whether a file is too slow, or too rarely of use, for every run. */
export function isSystemTest (file: string): boolean {
  return file.endsWith('.system.test.ts')
}

/** Every file of tests of the tree, relative to its root, in order. */
export async function listTests (): Promise<string[]> {
  const files = await Array.fromAsync(glob('**/*.test.ts', {
    cwd: ROOT, exclude: (name) => name === 'node_modules' || name.startsWith('.')
  }))
  return files.sort()
}

function listImports (root: string, file: string, text: string): string[] {
  return [...text.matchAll(IMPORT)]
    .filter(([, names = '']) => !isOnlyTypes(names))
    .map(([, , from, dynamic]) => path.posix.join(path.posix.dirname(file), from ?? dynamic ?? ''))
    // A text that looks like an import; the compiler sees to the real ones.
    .filter((imported) => existsSync(path.join(root, imported)))
}

/** `{ type A, type B }` starts nothing either, though the file is loaded. */
function isOnlyTypes (names: string): boolean {
  const list = /^\{([^}]*)\}\s*$/.exec(names)?.[1]?.split(',').map((name) => name.trim()).filter((name) => name !== '')
  return list !== undefined && list.length > 0 && list.every((name) => name.startsWith('type '))
}
