import { existsSync } from 'node:fs'
import { glob } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { ALONE, createTestKinds, EMBEDDED_CORE, EMBEDDED_SYSTEM, SERVICES, SYSTEMS, type TestKind, WHOLE_PATHS } from './kinds.ts'
import { renderTimes } from './times.ts'

const ROOT = path.join(import.meta.dirname, '..')

t.test('a test is of the kind that what it imports makes it', async (t) => {
  const root = t.testdir({
    a: {
      'plain.test.ts': "import t from 'tap'\nimport { sum } from './sum.ts'\nimport type { Store } from './store.ts'\n",
      'typed.test.ts': "import { type Store, type Row } from './store.ts'\n",
      'stored.test.ts': "import {\n  openStore\n} from './store.ts'\n",
      'lazy.test.ts': "const { openStore } = await import('./store.ts')\n",
      'engine.test.ts': "import { connect } from 'chdb'\n",
      'process.test.ts': `spawn(process.execPath, [path.join(here, '${'main'}.ts')])\n`,
      'whole.test.ts': "import { start } from './start.ts'\n",
      'slow.system.test.ts': "import t from 'tap'\n",
      'sum.ts': "export { one } from './one.ts'\n",
      'one.ts': '',
      'store.ts': "import { startPostgres } from '../embedded/postgres/start-postgres.ts'\nimport './circle.ts'\n",
      'circle.ts': "import { openStore } from './store.ts'\n",
      'start.ts': "import { startStack } from '../test/start-stack.ts'\n"
    },
    embedded: { postgres: { 'start-postgres.ts': '' } },
    test: { 'start-stack.ts': "import { startPostgres } from '../embedded/postgres/start-postgres.ts'\n" }
  })
  const { kindOf } = createTestKinds(root)
  const kinds: Record<string, TestKind> = {
    plain: 'unit', typed: 'unit', stored: 'service', lazy: 'service', engine: 'service', process: 'service', whole: 'whole path',
    'slow.system': 'system'
  }

  for (const [name, kind] of Object.entries(kinds)) t.equal(kindOf(`a/${name}.test.ts`), kind, name)
})

t.test('the modules that identify kinds exist, and tests of each kind', async (t) => {
  const named = [...SYSTEMS, ...SERVICES, ...ALONE, ...EMBEDDED_CORE, ...EMBEDDED_SYSTEM]
  for (const file of named) t.ok(existsSync(path.join(ROOT, file)), file)
  const files = await Array.fromAsync(glob('{chdb-server,engines,schema,platform,ingest,pipeline,api,cli,console,embedded,deploy,bench,docs,test}/**/*.test.ts', { cwd: ROOT }))
  const counts = Map.groupBy(files, createTestKinds().kindOf)

  t.ok(counts.get('unit')!.length > 50)
  t.ok(counts.get('service')!.length > 50)
  t.ok(counts.get('system')!.length > 50)
  t.same(counts.get('whole path')!.sort(), WHOLE_PATHS, 'others are named x.system.test.ts')
  t.notOk(counts.get('unit')!.some((file) => file.startsWith('test/events/')))
})

t.test('tells the time of each kind and the slowest files of a run', async (t) => {
  const times = [{ file: 'a/quick.test.ts', ms: 1000.4 }, { file: 'a/slow.test.ts', ms: 20_000.04 }]

  const rendered = renderTimes(times, (file) => file.includes('slow') ? 'service' : 'unit')

  t.same(rendered.split('\n').map((line) => line.split(/ {2,}/)), [
    ['unit', '1 files', '1.0 s'],
    ['service', '1 files', '20.0 s'],
    [''],
    ['slowest:'],
    ['', 'a/slow.test.ts', 'service', '20.0 s'],
    ['', 'a/quick.test.ts', 'unit', '1.0 s'],
    ['']
  ])
})
