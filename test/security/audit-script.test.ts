import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import t from 'tap'

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
