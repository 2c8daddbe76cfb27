/** The package as its users have it: packed, installed in an empty folder, as JavaScript. */
import { execFile } from 'node:child_process'
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { startTestServer } from './testing/start-test-server.ts'

const run = promisify(execFile)
const ROOT = import.meta.dirname
const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'))

t.test('imports nothing but Node, its dependencies and itself', async (t) => {
  const files = globSync('**/*.ts', { cwd: ROOT }).filter((file) => !/^(dist|node_modules)\//.test(file))
  const imports = files.flatMap((file) =>
    [...readFileSync(path.join(ROOT, file), 'utf8').matchAll(/(?:\bfrom |^import |\bimport\()'([^']+)'/gm)].map(([, name = '']) => ({ file, name })))
  const known = (file: string): object => /\.(test|bench)\.ts$|^testing\//.test(file) ? { ...manifest.dependencies, ...manifest.devDependencies } : manifest.dependencies
  const isOwn = ({ file, name }: { file: string, name: string }): boolean => name.startsWith('node:') || name.split('/')[0] === manifest.name || name in known(file) ||
    (name.startsWith('.') && !path.relative(ROOT, path.join(ROOT, path.dirname(file), name)).startsWith('..'))

  t.ok(imports.length > 300)
  t.same(imports.filter((each) => !isOwn(each)), [])
})

t.test('the command of the repository starts', async (t) => {
  const command = path.join(ROOT, 'chdb-server.js')

  t.equal((await run(process.execPath, [command, '--version'])).stdout, `${manifest.version}\n`)
  t.match((await run(process.execPath, [command, '--help'])).stdout, /^Usage: chdb-server/)
})

t.test('packed alone, it starts, and exports what its README names', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'chdb-server-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const copy = path.join(folder, 'sources')
  cpSync(ROOT, copy, { recursive: true, filter: (source) => !/\/(node_modules|dist|\.tap)$/.test(source) })
  const { stdout } = await run('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: copy })
  t.same(JSON.parse(readFileSync(path.join(copy, 'package.json'), 'utf8')), manifest, 'package.json is as it was')
  const modules = path.join(folder, 'user', 'node_modules')
  const installed = path.join(modules, 'chdb-server')
  mkdirSync(installed, { recursive: true })
  await run('tar', ['--extract', '--file', path.join(folder, stdout.trim()), '--directory', installed, '--strip-components=1'])
  const dependencies = path.join(findPackageJSON('chdb', import.meta.url)!, '..', '..')
  for (const name of ['chdb', '@chdb']) symlinkSync(path.join(dependencies, name), path.join(modules, name))

  const code = `import { digestPassword, MAIN } from 'chdb-server'
    import { quoteString } from 'chdb-server/sql-lexer'
    import { startTestServer } from 'chdb-server/testing'
    const ends = []
    const server = await startTestServer({ after: (work) => ends.push(work) })
    const answer = await server.ask('SELECT currentDatabase()', { user: 'analyst' })
    for (const end of ends) await end()
    console.log(MAIN, quoteString("it's"), digestPassword('').length, answer.text.trim())`
  const { stdout: printed } = await run(process.execPath, ['--input-type=module', '--eval', code], { cwd: path.join(folder, 'user') })
  t.equal(printed, `${path.join(installed, 'dist', 'main.js')} 'it\\'s' 64 shop\n`)
  t.notOk(globSync('**/*.test.*', { cwd: installed }).length)
  const server = await startTestServer(t, { main: path.join(installed, 'chdb-server.js') })
  t.equal((await server.ask('SELECT 1')).text, '1\n')
  t.match(await server.ask('SELECT * FROM file(\'x\')', { user: 'analyst' }), { status: 403 }, 'the lists of what analysts may name are there')
})
