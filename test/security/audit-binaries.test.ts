import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import t from 'tap'
import { auditBinaries, readInstalled } from './audit-binaries.ts'

const PAGE = `
| binary | comes from | checked |
|---|---|---|
| Postgres | npm | 18.4 |

| binary | fixed in | since | vulnerabilities | here |
|---|---|---|---|---|
| Postgres | 18.6 | 2026-08-13 | CVE-1 | not reached: no login |
| Postgres | 18.10 | 2027-02-11 | CVE-2 | **open**: anybody |
| Node | 26.12.1 | 2026-10-21 | CVE-3 | open |
`

t.test('names the advisories of the installed version, and fails on open ones', async (t) => {
  const { known, problems } = auditBinaries(PAGE, { Postgres: '18.4' })

  t.match(known, [/Postgres 18\.4, fixed in 18\.6 \(2026-08-13\): CVE-1; not reached/, /CVE-2/])
  t.strictSame(problems, ['Postgres 18.4: CVE-2 is open; 18.10 has the fix'])
})

t.test('a version that nobody looked up fails, whatever the page knows of others', async (t) => {
  t.match(auditBinaries(PAGE, { Postgres: '18.10' }), { known: [], problems: [/18\.10 is installed, and 18\.4 was checked/] })
  t.match(auditBinaries(PAGE, { nats: '1.0.0' }).problems, [/none was checked/])
})

t.test('the page was checked against every binary that is installed, and nothing is open', async (t) => {
  const page = await readFile(path.join(import.meta.dirname, '..', '..', 'docs', 'reference', 'dependencies.md'), 'utf8')

  const { known, problems } = auditBinaries(page, await readInstalled())

  t.strictSame(problems, [])
  t.ok(known.length > 0)
})

const SCRIPT = path.join(import.meta.dirname, '..', '..', '.ci', 'audit')

/** Runs the script against a registry that answers every question with that. */
async function auditWith (
  t: { teardown: (run: () => unknown) => unknown }, status: number, answer: unknown
): Promise<{ code: number, printed: string }> {
  const registry = createServer((request, response) => {
    request.resume().once('end', () => {
      const asksForAdvisories = request.url?.endsWith('/advisories/bulk') === true
      response.writeHead(asksForAdvisories ? status : 404, { 'content-type': 'application/json' })
      response.end(JSON.stringify(asksForAdvisories ? answer : {}))
    })
  })
  await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve))
  t.teardown(() => { registry.closeAllConnections(); registry.close() })
  const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}/`
  const args = ['--registry', url, '--fetch-retries', '0']
  return await new Promise((resolve) => {
    execFile(SCRIPT, args, { timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), printed: stdout + stderr })
    })
  })
}

t.test('the audit fails on what the registry knows, and not on a registry that does not answer', async (t) => {
  const advisory = {
    id: 1, url: 'https://example.com/1', title: 'made up', severity: 'high', vulnerable_versions: '*', cwe: [], cvss: { score: 9 }
  }

  t.match(await auditWith(t, 200, { re2js: [advisory] }), { code: 1, printed: /high re2js/ })
  t.match(await auditWith(t, 200, {}), { code: 0, printed: /nothing found/ })
  t.match(await auditWith(t, 405, { message: 'no such question' }), { code: 0, printed: /NOT DONE/ })
})
