/** The package as its users have it: alone, as JavaScript, on free port and an empty folder. */
import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { buildDist } from './build-dist.ts'
import { startTestServer } from './testing/start-test-server.ts'

const run = promisify(execFile)
const ROOT = import.meta.dirname
const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'))

t.test('imports nothing but Node, its dependencies and itself', async (t) => {
  const files = globSync('**/*.ts', { cwd: ROOT }).filter((file) => !/\.test\.ts$|^(testing|dist|node_modules)\//.test(file))
  const imports = files.flatMap((file) =>
    [...readFileSync(path.join(ROOT, file), 'utf8').matchAll(/(?:\bfrom |\bimport |\bimport\()'([^']+)'/g)].map(([, name = '']) => ({ file, name })))
  const isOwn = ({ file, name }: { file: string, name: string }): boolean => name.startsWith('node:') || name in manifest.dependencies ||
    (name.startsWith('.') && !path.relative(ROOT, path.join(ROOT, path.dirname(file), name)).startsWith('..'))

  t.ok(imports.length > 200)
  t.same(imports.filter((each) => !isOwn(each)), [])
})

t.test('the command of the repository and the JavaScript of the package start, and answer', async (t) => {
  const folder = t.testdir()
  buildDist(folder)
  const built = path.join(folder, 'main.js')

  for (const main of [path.join(ROOT, 'chdb-server.js'), built]) {
    t.equal((await run(process.execPath, [main, '--version'])).stdout, `${manifest.version}\n`)
    t.match((await run(process.execPath, [main, '--help'])).stdout, /^Usage: chdb-server/)
  }
  const server = await startTestServer(t, { main: built })
  t.equal((await server.ask('SELECT 1')).text, '1\n')
  t.match(await server.ask('SELECT * FROM file(\'x\')', { user: 'analyst' }), { status: 403 }, 'the lists of what analysts may name are there')
})
