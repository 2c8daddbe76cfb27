import { createEventSource } from '../load/prepare-events.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { buildPost, sendRequests } from '../load/send-requests.ts'
import { median, percentile, repeat, type BenchContext, type Figure, type Question } from '../question.ts'
import {
  auditEvents, countEvents, cpuBetween, readMergeCpu, readTiers, type Tier, waitUntilVisible
} from '../read-stack.ts'
import { measureOldUuids } from './old-uuids.ts'
import { buildLargeBody, sendAndFind } from './visible.bench.ts'

const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 16
const PROBE_PAUSE_MS = 150

/** Tiers that an event passes. */
const TIER_NAMES = ['ingest', 'nats', 'pipeline', 'clickhouse'] as const satisfies Tier[]

/** Enough people for every partition. */
const MARKERS = 32

/** What events cost that are sent again, and who waits for them. */
export const duplicates: Question = {
  name: 'duplicates',
  asks: 'batches of 100 sent again, large ones sent again by 16 clients, uuids that memory does not cover; beside fresh events',
  async answer (context) {
    const again = await repeat(context, async (repetition) => await sendTwice(context, 7000 + repetition))
    const delaysMs = await probeStorm(context)
    return [
      {
        // Merges of the new events run while they are sent again, and after: they belong to neither.
        name: 'cpu of an event sent again, without merges',
        value: median(again.map(({ resent }) => sum(resent))),
        unit: 'us',
        reference: { name: 'new', value: median(again.map(({ fresh }) => sum(fresh))) },
        target: { atMost: 0.7 }
      },
      ...[...TIER_NAMES, 'merges' as const].map((tier) => ({
        name: `cpu of an event sent again, ${tier}`,
        value: median(again.map(({ resent }) => resent[tier])),
        unit: 'us',
        reference: { name: 'new', value: median(again.map(({ fresh }) => fresh[tier])) }
      })),
      { name: 'fresh beside a storm p50', value: percentile(delaysMs, 0.5), unit: 'ms' },
      { name: 'fresh beside a storm p99', value: percentile(delaysMs, 0.99), unit: 'ms', target: { atMost: 2000 } },
      ...await measureOldUuids(context)
    ] satisfies Figure[]
  }
}

/** CPU of each tier, in microseconds an event; of ClickHouse without its merges, which are reported separately. */
type TierCpu = Record<typeof TIER_NAMES[number] | 'merges', number>

function sum (cpu: TierCpu): number {
  return TIER_NAMES.reduce((before, tier) => before + cpu[tier], 0)
}

/** Sends the same batches twice; CPU of the tiers, each time until all of them passed. */
async function sendTwice (context: BenchContext, seed: number): Promise<{ fresh: TierCpu, resent: TierCpu }> {
  const { stack, port, quick } = context
  const nextEvent = createEventSource(seed)
  const requests = quick ? 200 : 1000
  const bodies = Array.from({ length: requests }, () => JSON.stringify({
    api_key: stack.projectApiKey, batch: Array.from({ length: EVENTS_PER_REQUEST }, nextEvent)
  }))
  const events = requests * EVENTS_PER_REQUEST
  const before = await countEvents(stack)
  const measure = async (): Promise<TierCpu> => {
    const load = await prepareLoad({
      port, path: '/batch/', apiKey: stack.projectApiKey, seed, requests, eventsPerRequest: EVENTS_PER_REQUEST,
      connections: CONNECTIONS, gzip: false, bodies
    })
    const supervisor = stack.supervisor.pid as number
    const cpuBefore = readTiers(supervisor)
    const mergesBefore = readMergeCpu(cpuBefore.clickhouse.pid)
    const result = await load.run()
    if (result.failed > 0) throw new Error(`${result.failed} of ${requests} requests failed`)
    await passMarkers(context)
    const cpu = cpuBetween(cpuBefore, readTiers(supervisor))
    const merges = readMergeCpu(cpuBefore.clickhouse.pid) - mergesBefore
    const { ingest, nats, pipeline, clickhouse } = cpu
    return {
      ingest: ingest / events,
      nats: nats / events,
      pipeline: pipeline / events,
      clickhouse: (clickhouse - merges) / events,
      merges: merges / events
    }
  }
  const fresh = await measure()
  const resent = await measure()
  await auditEvents(stack, before, events + 2 * MARKERS)
  return { fresh, resent }
}

/** Sends a fresh event to every partition and waits for them: whatever was sent before has passed then. */
async function passMarkers ({ stack }: BenchContext): Promise<void> {
  const nextEvent = createEventSource(performance.now())
  const batch = Array.from({ length: MARKERS }, (_, i) => ({ ...nextEvent(), distinct_id: `marker-${i}-${performance.now()}` }))
  const response = await fetch(`${stack.url}/batch/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: stack.projectApiKey, batch })
  })
  if (response.status !== 200) throw new Error(`the markers were answered ${response.status}`)
  const uuids = batch.map((event) => (event as unknown as { uuid: string }).uuid)
  for (const deadline = Date.now() + 120_000; Date.now() < deadline;) {
    const [found] = await stack.select<{ n: number }>(
      `SELECT toUInt32(count()) AS n FROM events WHERE project_id = 1 AND toDate(timestamp) >= today() - 1
       AND distinct_id LIKE 'marker-%' AND uuid IN {uuids:Array(UUID)}`, { uuids })
    if (found?.n === MARKERS) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error('the markers were not visible after two minutes')
}

/** How long fresh events wait while clients send one large batch again and again, in milliseconds. */
async function probeStorm (context: BenchContext): Promise<number[]> {
  const { stack, port, quick } = context
  const clients = quick ? 4 : 16
  const before = await countEvents(stack)
  const { body, events } = buildLargeBody(stack.projectApiKey, 8000)
  const post = buildPost('/batch/', body)
  const first = await sendRequests([post], { port, connections: 1 })
  if (first.failed > 0) throw new Error('the large batch was not accepted')
  await waitUntilVisible(stack, before, events)

  const nextEvent = createEventSource(8001)
  const delaysMs: number[] = []
  const finished = new AbortController()
  const posts = Array.from({ length: clients * (quick ? 1 : 5) }, () => post)
  const storm = sendRequests(posts, { port, connections: clients }).finally(() => finished.abort())
  while (!finished.signal.aborted) {
    delaysMs.push(await sendAndFind(context, nextEvent() as { uuid: string, distinct_id: string, event: string }))
    await new Promise((resolve) => setTimeout(resolve, PROBE_PAUSE_MS))
  }
  const { failed } = await storm
  if (failed > 0) throw new Error(`${failed} large requests failed`)
  // What the storm left behind is part of it.
  delaysMs.push(await sendAndFind(context, nextEvent() as { uuid: string, distinct_id: string, event: string }))
  await passMarkers(context)
  await auditEvents(stack, before, events + delaysMs.length + MARKERS)
  return delaysMs
}
