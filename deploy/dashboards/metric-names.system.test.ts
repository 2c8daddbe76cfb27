import { readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { setQuota } from '../../api/projects/project-quota.ts'
import { parseMetrics, type MetricSamples } from '../../api/status/read-status.ts'
import { ALERT_FAULTS } from '../../test/alerts/alert-faults.ts'
import { startStackOnSharedStores } from '../../test/start-stack.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')
const METRIC = /\bmillrace_(?:ingest|pipeline|api|ledger)_\w+/g

/** Labels that Prometheus adds to what it scrapes. */
const OF_PROMETHEUS = new Set(['instance', 'job'])

/** Of the process itself, the same in every tier. */
const OF_PROM_CLIENT = /^millrace_(ingest|pipeline|api)_(process|nodejs)_/

interface Rule {
  alert: string
  expr: string
  for: string
  labels: { severity: string }
  annotations: { summary: string, runbook: string }
}

interface Dashboard {
  panels: { title: string, targets?: { expr: string }[] }[]
}

async function readRules (): Promise<Rule[]> {
  const file = await readFile(path.join(ROOT, 'deploy', 'alerts', 'millrace.yaml'), 'utf8')
  return (parse(file) as { groups: { rules: Rule[] }[] }).groups.flatMap(({ rules }) => rules)
}

async function readPanels (): Promise<{ title: string, expr: string }[]> {
  const file = await readFile(path.join(ROOT, 'deploy', 'dashboards', 'millrace.json'), 'utf8')
  const { panels } = JSON.parse(file) as Dashboard
  return panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))
}

/** As GitHub makes it from a heading. */
function toAnchor (heading: string): string {
  return heading.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(' ', '-')
}

/** Every `/metrics` of the stack, as text. */
async function scrape (dataDir: string): Promise<string> {
  const { baseUrl, apiUrl, pipelineUrl } = await readAddresses(dataDir)
  const ask = async (url: string): Promise<string> => await (await fetch(`${url}/metrics`)).text()
  const texts = await Promise.all([baseUrl, apiUrl, pipelineUrl].map(ask))
  return texts.join('\n')
}

/** Metrics that a query names, with the labels it selects or groups by that none of their samples has. */
function missingLabels (expr: string, samples: MetricSamples): string[] {
  const names = [...expr.matchAll(METRIC)].map(([name]) => name)
  const selected = [...expr.matchAll(/\b(millrace_\w+)\{([^}]*)\}/g)].flatMap(([, name, matchers]) =>
    [...matchers!.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label]) => [name!, label!] as const))
  const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, labels]) =>
    labels!.split(',').map((label) => label.trim()).filter((label) => !OF_PROMETHEUS.has(label)))
  return [
    ...selected.filter(([name, label]) => samples.by(name, label).size === 0).map(([name, label]) => `${name}{${label}}`),
    ...grouped.filter((label) => names.every((name) => samples.by(name, label).size === 0))
      .map((label) => `${names.join()} by ${label}`)
  ]
}

// Fresh for the first test; the second one sends what it needs.
const stack = await startStackOnSharedStores(t)

t.test('every counter has its series from the first scrape of a fresh start', async (t) => {
  // The first scrape of the pipeline finds its partitions taken; until then there is nothing that could be counted.
  await waitFor(async () => {
    const { names } = parseMetrics(await scrape(stack.dataDir))
    return names().has('millrace_pipeline_rows_stored_total') && names().has('millrace_pipeline_persons_dead_letters_total')
  })
  const text = await scrape(stack.dataDir)

  const samples = parseMetrics(text)
  const counters = [...text.matchAll(/^# TYPE (\w+) counter$/gm)].map(([, name]) => name!)
  t.ok(counters.length > 30)
  t.same(counters.filter((name) => !samples.names().has(name)), [], 'counters without a series')
  t.ok(text.includes('millrace_pipeline_dead_letters_total{stage="writer",reason="refused"} 0'))
  t.equal(samples.by('millrace_pipeline_persons_dead_letters_total', 'reason').size, 5)
  t.equal(samples.by('millrace_api_responses_total', 'status').get('5xx'), 0)
  t.ok(/millrace_ingest_requests_total\{path="\/batch",status="503"\} 0/.test(text))
  t.ok(samples.by('millrace_pipeline_insert_retries_total', 'code').has('252'))
})

t.test('names end as the rules of Prometheus say', async (t) => {
  const text = await scrape(stack.dataDir)
  const metrics = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => ({ name: name!, type: type! }))
  const names = metrics.map(({ name }) => name)
  const isTotal = (name: string): boolean => name.endsWith('_total')

  for (const type of ['counter', 'gauge', 'histogram']) t.ok(metrics.some((metric) => metric.type === type), type)
  t.same(metrics.filter(({ name, type }) => isTotal(name) !== (type === 'counter')), [], 'counters, and nothing else, end in _total')
  t.same(names.filter((name) => /_(ms|us|ns|millis|milliseconds|minutes|hours|days|kb|mb|kilobytes|megabytes|percent)(_|$)/.test(name)), [],
    'times are in seconds, sizes in bytes, shares in ratios')
  t.same(metrics.filter(({ name, type }) => name.endsWith(`_${type}`)), [], 'no name repeats its type')
  t.same(names.filter((name) => /_(seconds|bytes|ratio)_(?!total$|info$)/.test(name.replace(/_(bucket|sum|count)$/, ''))), [],
    'the unit comes last')
})

t.test('every metric and label that rules, panels and guides name is served by a tier', async (t) => {
  const guide = await readFile(path.join(ROOT, 'docs', 'run', 'scaling.md'), 'utf8')
  const exprs = [...await readRules(), ...await readPanels()].map(({ expr }) => expr)
  const named = new Set([...`${exprs.join('\n')}${guide}`.matchAll(METRIC)].map(([name]) => name))
  t.ok(named.size > 20)

  // The share of a quota is served of projects that have one.
  await setQuota(stack.sql, 1, { eventsPerSecond: null, burst: null, eventsPerMonth: 1000, beyond: 'reject', sampleRate: 0.1 })
  // As is the lag of an export.
  await stack.sql`INSERT INTO exports (project_id, name, schedule, target, tables) VALUES (1, 'a', 'hour', '{"kind": "folder"}', '["events"]')`
  const { baseUrl } = await readAddresses(stack.dataDir)
  const response = await fetch(`${baseUrl}/capture/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: stack.projectApiKey, event: 'seen', distinct_id: 'u', properties: { $set: { a: 1 } } })
  })
  t.equal(response.status, 200)
  await waitFor(async () => (await stack.select('SELECT 1 FROM events')).length === 1)
  // Disks, persons and quotas have a time of their own: the usage of a month is measured every 15 seconds.
  await waitFor(async () => {
    const text = await scrape(stack.dataDir)
    return ['clickhouse_disk_free_bytes{', 'persons_updates_total{kind="person"} 1', 'quota_month_used_ratio{project="1"}', 'export_lag_seconds{']
      .every((sample) => text.includes(sample))
  })
  const samples = parseMetrics(await scrape(stack.dataDir))

  // The guide names histograms as a whole.
  t.same([...named].filter((name) => !samples.names().has(name) && !samples.names().has(`${name}_count`)), [])
  t.same(exprs.flatMap((expr) => missingLabels(expr, samples)), [])
})

t.test('docs/reference/metrics.md has every metric that is served, and no other', async (t) => {
  const page = await readFile(path.join(ROOT, 'docs', 'reference', 'metrics.md'), 'utf8')
  const described = [...page.matchAll(/^\| `millrace_.*\|$/gm)].map(([row]) => row)
  const text = await scrape(stack.dataDir)
  const helps = new Map([...text.matchAll(/^# HELP (\w+) (.*)$/gm)].map(([, name, help]) => [name, help]))
  const served = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].filter(([, name]) => !OF_PROM_CLIENT.test(name!))
    .map(([, name, type]) => `| \`${name}\` | ${type === 'histogram' ? 'Histogram. ' : ''}${helps.get(name)} |`)

  t.ok(described.length > 70)
  t.same(served.filter((row) => !described.includes(row)), [], 'rows to add')
  t.same(described.filter((row) => !served.includes(row)), [], 'rows to remove')
})

t.test('every alert is whole, explained in the operations guide, and made to fire by npm run alerts', async (t) => {
  const guide = await readFile(path.join(ROOT, 'docs', 'run', 'operations.md'), 'utf8')
  const rules = await readRules()

  t.ok(rules.length > 20)
  for (const rule of rules) {
    t.match(rule, { for: /^\d+m$/, labels: { severity: /^(critical|warning)$/ }, annotations: { summary: /\w/, runbook: /^docs\/run\/operations\.md#/ } }, rule.alert)
    const [, anchor] = rule.annotations.runbook.split('#')
    const section = guide.split(/^(?=## )/m).find((each) => toAnchor(each.slice(3, each.indexOf('\n'))) === anchor)
    t.ok(section?.match(/^\| (Millrace.*?) \|/gm)?.some((cell) => cell.split(/[ ,|]+/).includes(rule.alert)),
      `${rule.alert}: its runbook has a line for it`)
  }
  const raised = new Set(ALERT_FAULTS.flatMap(({ alerts }) => alerts))
  t.same(rules.map(({ alert }) => alert).filter((name) => !raised.has(name)), [], 'alerts that npm run alerts does not raise')
})
