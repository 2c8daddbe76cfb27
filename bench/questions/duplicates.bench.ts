import { createEventSource } from '../load/prepare-events.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { buildPost, sendRequests } from '../load/send-requests.ts'
import { median, percentile, repeat, type BenchContext, type Figure, type Question } from '../question.ts'
import { auditEvents, countEvents, cpuBetween, readTiers, waitUntilVisible } from '../read-stack.ts'
import { buildLargeBody } from './large.bench.ts'
import { measureOldUuids } from './old-uuids.ts'
import { sendAndFind } from './visible.bench.ts'

const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 16
const PROBE_PAUSE_MS = 150

/** So many people that each partition has some of them. */
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
        name: 'cpu of an event sent again',
        value: median(again.map(({ resent }) => resent)),
        unit: 'us',
        reference: { name: 'new', value: median(again.map(({ fresh }) => fresh)) },
        target: { atMost: 0.7 }
      },
      { name: 'fresh beside a storm p50', value: percentile(delaysMs, 0.5), unit: 'ms' },
      { name: 'fresh beside a storm p99', value: percentile(delaysMs, 0.99), unit: 'ms', target: { atMost: 2000 } },
      ...await measureOldUuids(context)
    ] satisfies Figure[]
  }
}

/** Sends the same batches twice; CPU of all tiers in microseconds an event, each time until all of them passed. */
async function sendTwice (context: BenchContext, seed: number): Promise<{ fresh: number, resent: number }> {
  const { stack, port, quick } = context
  const nextEvent = createEventSource(seed)
  const requests = quick ? 200 : 1000
  const bodies = Array.from({ length: requests }, () => JSON.stringify({
    api_key: stack.projectApiKey, batch: Array.from({ length: EVENTS_PER_REQUEST }, nextEvent)
  }))
  const events = requests * EVENTS_PER_REQUEST
  const before = await countEvents(stack)
  const measure = async (): Promise<number> => {
    const load = await prepareLoad({
      port, path: '/batch/', apiKey: stack.projectApiKey, seed, requests, eventsPerRequest: EVENTS_PER_REQUEST,
      connections: CONNECTIONS, gzip: false, bodies
    })
    const supervisor = stack.supervisor.pid as number
    const cpuBefore = readTiers(supervisor)
    const result = await load.run()
    if (result.failed > 0) throw new Error(`${result.failed} of ${requests} requests failed`)
    await passMarkers(context)
    const cpu = cpuBetween(cpuBefore, readTiers(supervisor))
    return (cpu.ingest + cpu.nats + cpu.pipeline + cpu.clickhouse) / events
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
