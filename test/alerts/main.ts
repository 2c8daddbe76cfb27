/**
 * `npm run alerts`: a real Prometheus with the configuration, rules and panels of `deploy/`, a fresh stack, and a fault
 * for each alert. About seven minutes. Exits with 1 when an alert did not fire, or fired without a fault, when a panel
 * has no data, or when promtool finds a metric misnamed. Linux only: it looks for processes in /proc. With names of
 * alerts as arguments only those are raised.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { startStack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import { ALERT_FAULTS, findPids, SMALL, type Broken } from './alert-faults.ts'
import { startPrometheus, type Prometheus } from './start-prometheus.ts'

const DEPLOY = path.join(import.meta.dirname, '..', '..', 'deploy')

const folder = await mkdtemp(path.join(tmpdir(), 'millrace-alerts-'))
const stack = await startStack({ env: SMALL })
const { apiUrl, pipelineUrl } = await readAddresses(stack.dataDir)
let pretended: Readonly<Record<string, number>> = {}
const pretender = http.createServer((_request, response) => {
  void answerPretended({ ingest: stack.url, pipeline: pipelineUrl }, pretended)
    .then((text) => response.end(text), () => response.destroy())
})
await new Promise<void>((resolve) => { pretender.listen(0, '127.0.0.1', resolve) })
const prometheus = await startPrometheus(folder, path.join(DEPLOY, 'alerts', 'prometheus.yaml'), {
  ingest: new URL(stack.url).host,
  api: new URL(apiUrl).host,
  pipeline: new URL(pipelineUrl).host,
  pretended: `127.0.0.1:${(pretender.address() as AddressInfo).port}`
})
const broken: Broken = {
  stack,
  async send (event, { times = 1, bytes = 10, distinctId = 'u' } = {}) {
    for (let i = 0; i < times; i++) {
      const properties = { $set: { last: i }, filler: randomBytes(bytes).toString('hex') }
      const who = distinctId === null ? {} : { distinct_id: distinctId }
      const body = { api_key: stack.projectApiKey, event, properties, ...who }
      await fetch(`${stack.url}/capture/`, {
        method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body)
      })
    }
  },
  async signal (part, signal) {
    for (const pid of await findPids(stack.dataDir, part)) process.kill(pid, signal)
  },
  pretend: (figures) => { pretended = figures }
}

const problems: string[] = []
const chosen = process.argv.slice(2)
/** Ends the fault that is under way. */
let endFault = async (): Promise<void> => {}
try {
  await checkFreshStart(prometheus, broken)
  const missing = prometheus.alerts.filter((alert) => !ALERT_FAULTS.some(({ alerts }) => alerts.includes(alert)))
  problems.push(...missing.map((alert) => `${alert}: no fault of test/alerts raises it`))
  for (const fault of ALERT_FAULTS) {
    if (chosen.length === 0 || fault.alerts.some((alert) => chosen.includes(alert))) await raise(prometheus, fault)
  }
} finally {
  await prometheus.stop()
  pretender.close()
  await endFault().catch(() => {})
  await stack.stop()
  await rm(folder, { recursive: true, force: true })
}
for (const problem of problems) console.error(`PROBLEM  ${problem}`)
const fired = chosen.length === 0 ? `all ${prometheus.alerts.length} alerts` : chosen.join(', ')
console.log(problems.length === 0 ? `${fired} fired, every panel has data` : 'FAILED')
process.exit(problems.length === 0 ? 0 : 1)

/** Nothing fires and every panel has data once events flow. */
async function checkFreshStart (prometheus: Prometheus, { send }: Broken): Promise<void> {
  await send('seen', { times: 3 })
  const { panels } = JSON.parse(await readFile(path.join(DEPLOY, 'dashboards', 'millrace.json'), 'utf8')) as {
    panels: { title: string, targets?: { expr: string }[] }[]
  }
  const queries = panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))
  for (const { title, expr } of queries) {
    await waitFor(async () => await prometheus.countSeries(expr) > 0)
      .catch(() => problems.push(`panel "${title}" has no data: ${expr}`))
  }
  console.log(`${queries.length} queries of ${panels.length} panels answered`)
  for (const url of [stack.url, apiUrl, pipelineUrl]) {
    const complaints = await prometheus.checkMetrics(await (await fetch(`${url}/metrics`)).text())
    if (complaints !== '') problems.push(`promtool complains of ${url}/metrics:\n${complaints}`)
  }
  const firing = [...await prometheus.readFiring()]
  if (firing.length > 0) problems.push(`fires after a fresh start: ${firing.join(', ')}`)
}

/** Breaks something and waits until each of its alerts fired. */
async function raise (prometheus: Prometheus, fault: typeof ALERT_FAULTS[number]): Promise<void> {
  const waiting = new Set(fault.alerts)
  console.log(fault.name)
  // What fires already would prove nothing.
  await waitFor(async () => (await prometheus.readFiring()).isDisjointFrom(waiting))
    .catch(() => problems.push(`${fault.alerts.join(', ')}: one fires before ${fault.name}`))
  const startedAt = performance.now()
  endFault = async () => { await fault.end(broken) }
  await fault.begin(broken)
  await waitFor(async () => {
    const firing = await prometheus.readFiring()
    for (const alert of waiting) {
      if (!firing.has(alert)) continue
      waiting.delete(alert)
      console.log(`  ${alert} fired after ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
    }
    return waiting.size === 0
  }, { timeoutMs: fault.timeoutMs, everyMs: 500 }).catch(() => {})
  problems.push(...[...waiting].map((alert) => `${alert}: did not fire in ${fault.timeoutMs / 1000} s while ${fault.name}`))
  await endFault()
  endFault = async () => {}
}

/** A scrape of a real process, with other figures for some metrics; empty without a process. */
async function answerPretended (
  urls: Record<'ingest' | 'pipeline', string>, figures: Readonly<Record<string, number>>
): Promise<string> {
  const [first] = Object.keys(figures)
  if (first === undefined) return ''
  const url = first.startsWith('millrace_ingest_') ? urls.ingest : urls.pipeline
  const text = await (await fetch(`${url}/metrics`)).text()
  const lines = text.split('\n').map((line) => {
    const [name = ''] = /^\w+/.exec(line) ?? []
    return name in figures ? line.replace(/ \S+$/, ` ${figures[name]}`) : line
  })
  return lines.join('\n')
}
