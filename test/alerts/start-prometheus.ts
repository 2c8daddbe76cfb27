import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { parse, stringify } from 'yaml'
import { findCacheDir } from '../../embedded/data-dir/cache-dir.ts'
import { fetchDebianPackage } from '../../embedded/supervisor/fetch-debian-package.ts'
import { freePort } from '../support/local-ports.ts'
import { waitFor } from '../support/wait-for.ts'

const run = promisify(execFile)

/** Alerts wait this many times shorter than in production, which changes when they fire, not whether. */
const SHORTER = 60

const SCRAPE_SECONDS = 2

interface Config {
  global: Record<string, string>
  rule_files: string[]
  scrape_configs: { job_name: string, static_configs: { targets: string[] }[] }[]
}

/** A Prometheus with the rules of `deploy/alerts`. */
export interface Prometheus {
  /** Names of the alerts of the file. */
  alerts: readonly string[]
  /** Names of the alerts that fire. */
  readFiring: () => Promise<Set<string>>
  /** Number of series that a query answers with. */
  countSeries: (query: string) => Promise<number>
  /** What promtool finds wrong with names and helps of a scrape; empty when nothing. */
  checkMetrics: (text: string) => Promise<string>
  stop: () => Promise<void>
}

/**
 * Starts a real Prometheus with a configuration, which promtool checks as it is, together with the rules it names.
 * Changed are only the targets, which are scraped every two seconds, and the `for` of rules, which is 60 times shorter.
 *
 * @param targets  `host:port` of each job of the configuration, and of further ones.
 */
export async function startPrometheus (
  folder: string, configFile: string, targets: Readonly<Record<string, string>>
): Promise<Prometheus> {
  const programs = await findPrograms(folder)
  await run(programs.promtool, ['check', 'config', configFile])
  const config = parse(await readFile(configFile, 'utf8')) as Config
  const rulesFile = path.join(path.dirname(configFile), config.rule_files[0]!)
  const without = config.scrape_configs.filter(({ job_name: job }) => targets[job] === undefined)
  if (without.length > 0) throw new Error(`no target for the job ${without.map(({ job_name: job }) => job).join()}`)
  const rules = parse(await readFile(rulesFile, 'utf8')) as { groups: { rules: { alert: string, for: string }[] }[] }
  const all = rules.groups.flatMap((group) => group.rules)
  for (const rule of all) rule.for = `${Math.round(Number.parseInt(rule.for) * 60_000 / SHORTER)}ms`
  await writeFile(path.join(folder, 'rules.yaml'), stringify(rules))
  await writeFile(path.join(folder, 'prometheus.yaml'), stringify({
    ...config,
    global: { ...config.global, scrape_interval: `${SCRAPE_SECONDS}s`, scrape_timeout: `${SCRAPE_SECONDS}s`, evaluation_interval: '1s' },
    rule_files: ['rules.yaml'],
    scrape_configs: Object.entries(targets).map(([job, target]) => ({
      ...config.scrape_configs.find(({ job_name: name }) => name === job),
      job_name: job,
      static_configs: [{ targets: [target] }]
    }))
  }))
  const address = `127.0.0.1:${await freePort()}`
  const child = spawn(programs.prometheus, [
    '--config.file=prometheus.yaml', '--storage.tsdb.path=data', `--web.listen-address=${address}`, '--log.level=error'
  ], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  const exited = once(child, 'exit')
  const ask = async <T>(path: string): Promise<T> =>
    ((await (await fetch(`http://${address}/api/v1/${path}`)).json()) as { data: T }).data
  await waitFor(async () => (await fetch(`http://${address}/-/ready`)).ok)
  return {
    alerts: all.map(({ alert }) => alert),
    async readFiring () {
      const { alerts } = await ask<{ alerts: { labels: { alertname: string }, state: string }[] }>('alerts')
      return new Set(alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname))
    },
    countSeries: async (query) =>
      (await ask<{ result: unknown[] }>(`query?query=${encodeURIComponent(query)}`)).result.length,
    checkMetrics: async (text) => await checkMetrics(programs.promtool, text),
    async stop () {
      child.kill('SIGTERM')
      await exited
    }
  }
}

async function checkMetrics (promtool: string, scrape: string): Promise<string> {
  const child = spawn(promtool, ['check', 'metrics'], { stdio: ['pipe', 'ignore', 'pipe'] })
  child.stdin.end(scrape)
  const [complaints, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  return code === 0 ? '' : complaints.trim()
}

/** On PATH, else in the cache folder of the user, else from Debian's package. */
async function findPrograms (dataDir: string): Promise<{ prometheus: string, promtool: string }> {
  const folders = (process.env.PATH ?? '').split(path.delimiter).filter(Boolean)
  const cache = await findCacheDir({ env: process.env, dataDir })
  for (const folder of [...folders, cache]) {
    const found = { prometheus: path.join(folder, 'prometheus'), promtool: path.join(folder, 'promtool') }
    const isThere = Promise.all(Object.values(found).map(async (file) => { await access(file) }))
    if (await isThere.then(() => true, () => false)) return found
  }
  await mkdir(cache, { recursive: true })
  const found = { prometheus: path.join(cache, 'prometheus'), promtool: path.join(cache, 'promtool') }
  await fetchDebianPackage({
    name: 'prometheus',
    suites: ['trixie', 'bookworm'],
    files: { 'usr/bin/prometheus': found.prometheus, 'usr/bin/promtool': found.promtool }
  })
  return found
}
