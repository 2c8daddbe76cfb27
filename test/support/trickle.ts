import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { parseMetrics } from '../../api/status/read-status.ts'
import type { Stack } from '../start-stack.ts'
import { waitFor } from './wait-for.ts'

/** What became of events that were sent one by one, with pauses. */
export interface Trickled {
  /** From the answer of ingest until a SELECT found the event, of each event in milliseconds. */
  visibleMs: number[]
  /** Messages that JetStream delivered to the pipeline meanwhile. */
  delivered: { events: number, persons: number }
  /** Those among them that were delivered later than `LATE_SECONDS` after their storage. */
  late: number
}

/** A bucket of the metric. The known defect of nats-server 2.14.5 makes messages 10 to 18 s late. */
const LATE_SECONDS = 10

const VISIBLE_TIMEOUT_MS = 60_000

/**
 * Sends one event a second, each of which also changes a person, and waits until each is visible. A lone message shows
 * what a flow of messages hides: that a stored one lies in the stream until something else wakes the server up.
 */
export async function sendTrickle (stack: Stack, seconds: number): Promise<Trickled> {
  const before = await readDeliveries(stack)
  const startedAt = performance.now()
  const waits: Promise<number>[] = []
  for (let i = 0; i < seconds; i++) {
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, startedAt + i * 1000 - performance.now())))
    waits.push((await sendOne(stack, `trickle-${i}`)).visible)
  }
  const visibleMs = await Promise.all(waits)
  // Persons are not waited for one by one.
  const expected = before.persons + seconds
  await waitFor(async () => (await readDeliveries(stack)).persons >= expected, { timeoutMs: VISIBLE_TIMEOUT_MS })
  const after = await readDeliveries(stack)
  return {
    visibleMs,
    delivered: { events: after.events - before.events, persons: after.persons - before.persons },
    late: after.late - before.late
  }
}

/** Resolves when the event is acknowledged, with the milliseconds from then until it is visible. */
async function sendOne (stack: Stack, distinctId: string): Promise<{ visible: Promise<number> }> {
  const uuid = crypto.randomUUID()
  const response = await fetch(`${stack.url}/capture/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      api_key: stack.projectApiKey, event: 'drop', distinct_id: distinctId, uuid, properties: { $set: { uuid } }
    })
  })
  if (response.status !== 200) throw new Error(`the event was answered with ${response.status}`)
  const answeredAt = performance.now()
  const find = async (): Promise<boolean> =>
    (await stack.select('SELECT 1 FROM events WHERE event = \'drop\' AND uuid = {uuid:UUID}', { uuid })).length > 0
  return { visible: waitFor(find, { timeoutMs: VISIBLE_TIMEOUT_MS }).then(() => performance.now() - answeredAt) }
}

async function readDeliveries ({ dataDir }: Stack): Promise<{ events: number, persons: number, late: number }> {
  const { pipelineUrl } = await readAddresses(dataDir)
  const samples = parseMetrics(await (await fetch(`${pipelineUrl}/metrics`)).text())
  const count = (name: string): number => samples.sum(`millrace_pipeline_${name}_count`)
  const inTime = (name: string): number => samples.sum(`millrace_pipeline_${name}_bucket`, { le: String(LATE_SECONDS) })
  const [events, persons] = [count('delivery_seconds'), count('persons_delivery_seconds')]
  return { events, persons, late: events + persons - inTime('delivery_seconds') - inTime('persons_delivery_seconds') }
}
