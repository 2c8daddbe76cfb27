import { readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { readAddresses } from '../local/data-dir/stack-addresses.ts'
import { startStackOnSharedStores } from '../../test/start-stack-on-shared-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')
const METRIC = /\bmillrace_(?:ingest|pipeline|api)_\w+/g

t.test('every metric that the dashboard, the alerts and the guide to scaling name is served by a tier', async (t) => {
  const dashboard = await readFile(path.join(ROOT, 'deploy', 'dashboards', 'millrace.json'), 'utf8')
  const alerts = await readFile(path.join(ROOT, 'deploy', 'alerts', 'millrace.yaml'), 'utf8')
  const guide = await readFile(path.join(ROOT, 'docs', 'scaling.md'), 'utf8')
  const named = new Set([...`${dashboard}${alerts}${guide}`.matchAll(METRIC)].map(([name]) => name))
  t.ok(named.size > 20)
  JSON.parse(dashboard)

  const stack = await startStackOnSharedStores(t)
  const { baseUrl, apiUrl, pipelineUrl } = await readAddresses(stack.dataDir)
  const response = await fetch(`${baseUrl}/capture/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: stack.projectApiKey, event: 'seen', distinct_id: 'u', properties: { $set: { a: 1 } } })
  })
  t.equal(response.status, 200)
  await waitFor(async () => (await stack.select('SELECT 1 FROM events')).length === 1)

  const served = new Set<string>()
  for (const url of [baseUrl, apiUrl, pipelineUrl]) {
    const text = await (await fetch(`${url}/metrics`)).text()
    // A counter with labels has no sample before its first event, but its type is told from the start.
    for (const [, name, type] of text.matchAll(/^# TYPE (\w+) (\w+)$/gm)) {
      served.add(name!)
      if (type === 'histogram') for (const part of ['bucket', 'sum', 'count']) served.add(`${name}_${part}`)
    }
  }
  t.same([...named].filter((name) => !served.has(name)), [])
})

t.test('every alert is explained in the operations guide', async (t) => {
  const alerts = await readFile(path.join(ROOT, 'deploy', 'alerts', 'millrace.yaml'), 'utf8')
  const guide = await readFile(path.join(ROOT, 'docs', 'operations.md'), 'utf8')

  const names = [...alerts.matchAll(/alert: (\w+)/g)].map(([, name]) => name!)

  t.same(names.filter((name) => !guide.includes(name)), [])
})
