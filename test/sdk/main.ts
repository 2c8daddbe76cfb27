/**
 * `npm run test:sdks`: runs the tests of clients that others have written, and makes the lists of
 * `docs/reference/contract/sdks.md` when all have passed. Fails when a test failed or did not run; then the page stays
 * as it is.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { listShownTests, renderLists } from './compatibility-matrix.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')
const PAGE = path.join(ROOT, 'docs', 'reference', 'contract', 'sdks.md')

const shown = listShownTests()
/** What a server owes SDKs, each duty a test (test/sdk/duties/harness-cases.ts). */
const duties = (await readdir(path.join(ROOT, 'test/sdk/duties'))).filter((name) => name.endsWith('.test.ts')).sort()
const files = [...new Set(shown.map(({ file }) => file)), ...duties.map((name) => `test/sdk/duties/${name}`)]
const runner = spawn(process.execPath, [path.join(ROOT, 'test', 'main.ts'), ...files], { cwd: ROOT, stdio: 'inherit' })
const [code] = await once(runner, 'exit') as [number | null]

const results = new Map(await Promise.all(files.map(async (file) =>
  [file, await readFile(path.join(ROOT, '.tap', 'test-results', `${file}.tap`), 'utf8')] as const)))
const missing = shown.filter(({ file, title }) => !hasPassed(results.get(file) ?? '', title))
for (const { file, title } of missing) process.stdout.write(`not shown by this run: ${file}: ${title}\n`)
if (code !== 0 || missing.length > 0) {
  process.exitCode = 1
} else {
  await writeFile(PAGE, renderLists(await readFile(PAGE, 'utf8')))
  process.stdout.write(`${shown.length} tests of ${files.length} files passed; docs/reference/contract/sdks.md says so\n`)
}

/** A file is a test of its process, and its own tests are below it. The runner escapes `#`, which our titles lack. */
function hasPassed (results: string, title: string): boolean {
  return results.split('\n').some((line) => /^ {4}ok \d+ - /.test(line) && line.replace(/^ {4}ok \d+ - /, '').replace(/ # .*$/, '') === title)
}
