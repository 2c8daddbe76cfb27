import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ImportResult } from '../../cli/import/import-options.ts'
import { generateExport, type HistorySource } from '../../test/history/generate-export.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { createEventSource } from '../load/prepare-events.ts'
import { percentile, type BenchContext, type Figure, type Question } from '../question.ts'
import { countEvents, cpuBetween, readTiers, waitUntilVisible } from '../read-stack.ts'
import { sendAndFind } from './visible.bench.ts'

const PROBE_PAUSE_MS = 150
const MAIN = path.join(import.meta.dirname, '../../cli/main.ts')

/** How fast a history comes in against batches of SDKs, and what live events notice of it at its default rate. */
export const importing: Question = {
  name: 'import',
  asks: 'generated exports of Mixpanel and PostHog through npx millrace import, to the proof; single live events beside the first',
  isLong: true,
  async answer (context) {
    const folder = await mkdtemp(path.join(tmpdir(), 'millrace-bench-import-'))
    try {
      const alone = await probe(context, sleep(context.quick ? 10_000 : 30_000))
      const beside = await importExport(context, { source: 'mixpanel', folder: path.join(folder, 'slow'), rows: context.quick ? 100_000 : 300_000, rate: 5000 })
      // Before and after, as a shared machine changes from minute to minute.
      const before = await measureBatch(context)
      const fast = await importExport(context, { source: 'posthog', folder: path.join(folder, 'fast'), rows: context.quick ? 200_000 : 1_000_000, rate: 0 })
      const after = await measureBatch(context)
      const batch = { perSecond: (before.perSecond + after.perSecond) / 2, cpuUs: (before.cpuUs + after.cpuUs) / 2 }
      return [
        { name: 'live visible p99 beside 5,000 imported events/s', value: percentile(beside.delaysMs, 0.99), unit: 'ms', reference: { name: 'alone', value: percentile(alone, 0.99) }, target: { atMost: 1.2 } },
        { name: 'live visible p50 beside 5,000 imported events/s', value: percentile(beside.delaysMs, 0.5), unit: 'ms', reference: { name: 'alone', value: percentile(alone, 0.5) } },
        { name: 'without a limit, accepted', value: fast.acceptedPerSecond, unit: 'events/s', reference: { name: 'batches accepted', value: batch.perSecond }, target: { atLeast: 0.8 } },
        { name: 'without a limit, to the proof', value: fast.perSecond, unit: 'events/s' },
        { name: 'cpu of the importer', value: fast.cpuUs, unit: 'us/event' },
        { name: 'cpu of all tiers', value: fast.tiersUs, unit: 'us/event', reference: { name: 'batches', value: batch.cpuUs } },
        { name: 'peak rss of the importer', value: fast.peakRssBytes / 1e6, unit: 'MB', target: { atMost: 300 } }
      ] satisfies Figure[]
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
}

/** Sends single live events until something ends; resolves with the milliseconds until each was found. */
async function probe (context: BenchContext, until: Promise<unknown>): Promise<number[]> {
  const nextEvent = createEventSource(performance.now())
  const delaysMs: number[] = []
  const ended = new AbortController()
  void until.catch(() => {}).finally(() => { ended.abort() })
  while (!ended.signal.aborted) {
    delaysMs.push(await sendAndFind(context, nextEvent() as { uuid: string, distinct_id: string, event: string }))
    await sleep(PROBE_PAUSE_MS)
  }
  return delaysMs
}

interface Imported {
  /** To the proof. */
  perSecond: number
  /** Until the last event was answered. */
  acceptedPerSecond: number
  /** Of the importer, and of all tiers, for an event. */
  cpuUs: number
  tiersUs: number
  peakRssBytes: number
  delaysMs: number[]
}

async function importExport (
  { stack, ...context }: BenchContext,
  { source, folder, rows, rate }: { source: HistorySource, folder: string, rows: number, rate: number }
): Promise<Imported> {
  await generateExport({ source, rows, folder, seed: 1, formats: ['jsonl.gz'] })
  const args = [MAIN, 'import', source, folder, '--state', `${folder}-state`, '--events-per-second', String(rate), '--json']
  const startedAt = performance.now()
  const tiersBefore = readTiers(Number(stack.supervisor.pid))
  const child = spawn(process.execPath, args, {
    env: { ...process.env, MILLRACE_URL: stack.url, MILLRACE_KEY: stack.personalApiKey }, stdio: ['ignore', 'pipe', 'inherit']
  })
  const usage = { cpuUs: 0, peakRssBytes: 0 }
  const watch = setInterval(() => {
    void readUsage(child.pid).then((read) => Object.assign(usage, read), () => {})
  }, 250)
  const result = json(child.stdout) as Promise<ImportResult>
  const ended = once(child, 'exit')
  const delaysMs = rate === 0 ? [] : await probe({ stack, ...context }, ended)
  await ended
  clearInterval(watch)
  const { events, proof } = await result
  if (proof?.isComplete !== true) throw new Error('the import is not complete')
  const seconds = (performance.now() - startedAt) / 1000
  const { cpuUs, peakRssBytes } = usage
  return {
    perSecond: events / seconds,
    acceptedPerSecond: events / await readSendSeconds(`${folder}-state`),
    cpuUs: cpuUs / events,
    tiersUs: sum(cpuBetween(tiersBefore, readTiers(Number(stack.supervisor.pid)))) / events,
    peakRssBytes,
    delaysMs
  }
}

/** From the start of the importer's work to the last answer: it saves its progress each second, and at the end. */
async function readSendSeconds (stateFolder: string): Promise<number> {
  const [begun, ended] = await Promise.all(['rejected.ndjson', 'progress.json'].map(async (file) => await stat(path.join(stateFolder, file))))
  return ((ended?.mtimeMs ?? 0) - (begun?.birthtimeMs ?? 0)) / 1000
}

function sum (values: Record<string, number>): number {
  return Object.values(values).reduce((total, value) => total + value, 0)
}

/** Of a process, from /proc (proc(5)): 100 ticks are a second. */
async function readUsage (pid: number | undefined): Promise<{ cpuUs: number, peakRssBytes: number }> {
  const [stat, status] = await Promise.all(['stat', 'status'].map(async (file) => await readFile(`/proc/${pid}/${file}`, 'utf8')))
  const [user, system] = (stat ?? '').slice((stat ?? '').lastIndexOf(')') + 2).split(' ').slice(11, 13).map(Number)
  return { cpuUs: (Number(user) + Number(system)) * 10_000, peakRssBytes: Number(/VmHWM:\s+(\d+)/.exec(status ?? '')?.[1] ?? 0) * 1024 }
}

/** Events a second that batches of 100 are accepted with, as in the question `batch`, and what an event costs. */
async function measureBatch ({ stack, port, quick }: BenchContext): Promise<{ perSecond: number, cpuUs: number }> {
  const requests = quick ? 1000 : 4000
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed: 8000, requests, eventsPerRequest: 100, connections: 16, gzip: true
  })
  const before = await countEvents(stack)
  const tiersBefore = readTiers(Number(stack.supervisor.pid))
  const { failed, durationMs } = await load.run()
  if (failed > 0) throw new Error(`${failed} of ${requests} requests failed`)
  await waitUntilVisible(stack, before, requests * 100)
  const tiersUs = sum(cpuBetween(tiersBefore, readTiers(Number(stack.supervisor.pid))))
  return { perSecond: requests * 100 / durationMs * 1000, cpuUs: tiersUs / requests / 100 }
}
