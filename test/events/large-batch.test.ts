import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createStackProject, type RunningStack, waitUntilKnown } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'

const stack = await createStackProject(t)
await waitUntilKnown(stack)

interface Single {
  status: number
  ms: number
}

/** Sends single captures one after another until stopped, and keeps how each was answered. */
function sendSingles (
  { url, projectApiKey }: RunningStack
): { singles: readonly Single[], stop: () => Promise<Single[]> } {
  const singles: Single[] = []
  const stopping = new AbortController()
  const running = (async () => {
    while (!stopping.signal.aborted) {
      const startedAt = performance.now()
      const response = await fetch(`${url}/capture/`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ api_key: projectApiKey, event: 'single', distinct_id: 'small', uuid: randomUUID() })
      })
      await response.arrayBuffer()
      singles.push({ status: response.status, ms: performance.now() - startedAt })
      // The pace of a calm client, so that it does not measure itself.
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  })()
  return {
    singles,
    async stop () {
      stopping.abort()
      await running
      return singles
    }
  }
}

function p99 (singles: readonly Single[]): number {
  const sorted = singles.map(({ ms }) => ms).sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN
}

async function sendBatch (body: string): Promise<{ status: number, ms: number }> {
  const startedAt = performance.now()
  const response = await fetch(`${stack.url}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body
  })
  t.same(await response.json(), { status: 1 })
  return { status: response.status, ms: performance.now() - startedAt }
}

async function countOf (event: string): Promise<{ rows: number, unique: number }> {
  const [counts] = await stack.select<{ rows: number, unique: number }>(
    'SELECT toUInt32(count()) AS rows, toUInt32(uniqExact(uuid)) AS unique FROM events WHERE project_id = {project:UInt32} AND event = {event:String}',
    { event, project: stack.project })
  return counts as { rows: number, unique: number }
}

const batches = [
  { name: 'a batch of 19.9 MB', event: 'large', events: 1000, text: 'x'.repeat(19_740) },
  { name: 'a batch of 100,000 small events', event: 'many', events: 100_000, text: '' }
]

for (const { name, event, events, text } of batches) {
  t.test(`${name} is stored whole while single captures keep answering`, async (t) => {
    const body = JSON.stringify({
      api_key: stack.projectApiKey,
      batch: Array.from({ length: events }, (_, index) => (
        { event, distinct_id: `p${index % 100}`, uuid: randomUUID(), properties: { index, ...(text && { text }) } }))
    })
    t.ok(body.length < 20_000_000, `${body.length} bytes`)
    const warmUp = sendSingles(stack)
    await waitFor(() => warmUp.singles.length >= 50)
    const alone = await warmUp.stop()

    const singles = sendSingles(stack)
    const sent = await sendBatch(body)
    const beside = await singles.stop()

    t.equal(sent.status, 200)
    t.ok(beside.every(({ status }) => status === 200), 'every single capture is answered with 200')
    await waitFor(async () => (await countOf(event)).rows >= events)
    t.same(await countOf(event), { rows: events, unique: events })
    t.comment(`${name}: answered in ${sent.ms.toFixed(0)} ms; p99 of single captures ` +
      `${p99(beside).toFixed(1)} ms beside it, ${p99(alone).toFixed(1)} ms alone`)
  })
}

t.test('a batch of 20 MB is refused with 413 and the connection stays usable', async (t) => {
  const response = await fetch(`${stack.url}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: ' '.repeat(20_000_000)
  })

  t.equal(response.status, 413)
  t.match(await response.json(), { type: 'validation_error' })
  t.equal((await fetch(`${stack.url}/_readiness`)).status, 200)
})

t.end()
