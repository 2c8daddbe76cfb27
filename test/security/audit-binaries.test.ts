import { readFile } from 'node:fs/promises'
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

t.test('names what the installed version has, and fails on what is open', async (t) => {
  const { known, problems } = auditBinaries(PAGE, { Postgres: '18.4' })

  t.match(known, [/Postgres 18\.4, fixed in 18\.6 \(2026-08-13\): CVE-1; not reached/, /CVE-2/])
  t.strictSame(problems, ['Postgres 18.4: CVE-2 is open; 18.10 has the fix'])
})

t.test('a version that nobody looked up fails, whatever the page knows of others', async (t) => {
  t.match(auditBinaries(PAGE, { Postgres: '18.10' }), { known: [], problems: [/18\.10 is installed, and 18\.4 was checked/] })
  t.match(auditBinaries(PAGE, { nats: '1.0.0' }).problems, [/none was checked/])
})

t.test('the page was checked against every binary that is installed, and nothing is open', async (t) => {
  const page = await readFile(path.join(import.meta.dirname, '..', '..', 'docs', 'reference', 'known-vulnerabilities.md'), 'utf8')

  const { known, problems } = auditBinaries(page, await readInstalled())

  t.strictSame(problems, [])
  t.ok(known.length > 0)
})
