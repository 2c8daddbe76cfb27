import { globSync, readFileSync } from 'node:fs'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import ts from 'typescript'
import { BUNDLED } from '../../console/server/bundle-assets.ts'
import { toJavaScript } from '../../deploy/build-package.ts'
import { describeVersion } from '../../schema/version.ts'
import { withoutSettings } from '../support/environments.ts'
import { findMachineNode, packPackage, ROOT, tryFirstSession, unpackPackage } from './installed-package.ts'

const run = promisify(execFile)
const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  version: string, dependencies: Record<string, string>
}

// Below the clone, so that the dependencies are found in its node_modules; `npm run check:package` installs them again.
await mkdir(path.join(ROOT, '.tap'), { recursive: true })
const folder = await mkdtemp(path.join(ROOT, '.tap', 'package-'))
t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })
const packed = await packPackage(folder)
const installed = await unpackPackage(packed, folder)
const files = globSync('**/*', { cwd: installed, withFileTypes: true }).filter((entry) => entry.isFile())
  .map((entry) => path.relative(installed, path.join(entry.parentPath, entry.name)))
const env = { ...withoutSettings(process.env), NODE_COMPILE_CACHE: path.join(folder, 'compiled') }

t.test('the package is small, and holds JavaScript, no TypeScript, no tests and no benchmarks', async (t) => {
  t.ok((await stat(packed)).size < 1_600_000, `${(await stat(packed)).size} bytes`)
  t.ok(files.includes(`dist/${BUNDLED}`), 'the pages of the console are bundled')
  t.ok(files.includes('dist/ingest/main.js') && files.includes('deploy/compose.yaml') && files.includes('deploy/proxy/Caddyfile') && files.includes('docs/run/operations.md'))
  t.same(files.filter((file) => /\.ts$|\.test\.|\.bench\.|(^|\/)(testing|test|bench|node_modules)\//.test(file)), [])
})

t.test('whatever the JavaScript imports is in the package, or is a dependency of it', async (t) => {
  const missing = files.filter((file) => file.startsWith('dist/') && file.endsWith('.js')).flatMap((file) =>
    ts.preProcessFile(readFileSync(path.join(installed, file), 'utf8'), true, true).importedFiles
      .map(({ fileName }) => fileName)
      .filter((name) => name.startsWith('.')
        ? !files.includes(path.posix.join(path.posix.dirname(file), name))
        : !isBuiltin(name) && !(/^(@[^/]+\/)?[^/]+/.exec(name)![0] in manifest.dependencies))
      .map((name) => `${file}: ${name}`))

  t.same(missing, [])
})

t.test('a line of the JavaScript is the line of the source, with imports of .js', async (t) => {
  const source = "import { a, type B } from './a.ts'\nconst c = (b: B): string => a(b)\nawait import('../d/e.ts')\nimport { q } from 'chdb-server/sql-lexer'\nconst text = './f.ts'\n"

  t.equal(toJavaScript(source, 'engines/questions'),
    "import { a,        } from './a.js'\nconst c = (b   )         => a(b)\nawait import('../d/e.js')\nimport { q } from '../../chdb-server/statement/sql-lexer.js'\nconst text = './f.ts'\n")
})

t.test('the Node of the machine runs the commands, however old it is', async (t) => {
  const millrace = [path.join(installed, 'cli', 'millrace.js')]
  const node = await findMachineNode()

  t.equal((await run(node, [...millrace, '--version'], { env })).stdout, `${describeVersion()}\n`, 'with the commit that it was packed of')
  t.match((await run(node, [...millrace, 'ingest', '--help'], { env })).stdout, 'Usage: millrace ingest')
  const nobody = { ...env, DATABASE_URL: 'postgres://m@127.0.0.1:9/none', CLICKHOUSE_URL: 'http://127.0.0.1:9/none' }
  await t.rejects(run(node, [...millrace, 'migrate'], { env: nobody }), { code: 3, stderr: /set DATABASE_URL or CLICKHOUSE_URL/ })
})

t.test('installed in an empty folder it starts, takes an event of an SDK, shows it, and stops', async (t) => {
  const command = [await findMachineNode(), path.join(installed, 'cli', 'millrace.js'), 'start'] as const
  const { rows, exitCode, logs, printed } = await tryFirstSession(command, { folder, env })

  t.match(rows, [{ event: 'installed', distinct_id: 'first-user', properties: /"from":"npm"/ }])
  t.equal(rows.length, 1)
  t.equal(exitCode, 0, printed)
  t.match(printed, 'Stopped')
  if (process.platform === 'linux') t.match(logs.clickhouse, 'confine', 'its engine knows where the package is')
  t.notMatch(logs.clickhouse, 'the kernel does not confine')
})
