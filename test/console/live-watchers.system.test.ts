/** Watchers of live events, against the real stack: many, slow and vanished ones, and their counts. */
import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { FeedBatch } from '../../api/events/live/feed-batch.ts'
import { startStackOnSharedStores, type Stack } from '../start-stack.ts'
import type { TestContext } from '../support/test-context.ts'
import { waitFor } from '../support/wait-for.ts'
import { send } from './open-console.ts'

const stack = await startStackOnSharedStores(t)
const headers = await logIn(stack)

/** Somebody who watches, and what they were sent so far. */
interface Watcher { batches: FeedBatch[], leave: () => void }

async function logIn ({ url, personalApiKey }: Stack): Promise<Record<string, string>> {
  const mark = { 'millrace-console': '1', 'content-type': 'application/json' }
  const login = await fetch(`${url}/console/session`, { method: 'POST', headers: mark, body: JSON.stringify({ personal_api_key: personalApiKey }) })
  return { 'millrace-console': '1', cookie: login.headers.get('set-cookie')!.split(';')[0]! }
}

/** Not by `fetch`: what aborts one may be collected as garbage before it is used. */
async function watch (t: TestContext, filter = ''): Promise<Watcher> {
  const request = http.get(`${stack.url}/api/projects/1/events/live${filter}`, { headers, agent: false })
  t.teardown(() => request.destroy())
  request.on('error', () => {})
  const [answer] = await once(request, 'response') as [http.IncomingMessage]
  if (answer.statusCode !== 200) throw new Error(`the feed answered ${answer.statusCode}`)
  const batches: FeedBatch[] = []
  let text = ''
  answer.setEncoding('utf8').on('error', () => {}).on('data', (chunk: string) => {
    const messages = (text + chunk).split('\n\n')
    text = messages.pop()!
    for (const message of messages) {
      if (message.startsWith('data: ')) batches.push(JSON.parse(message.slice('data: '.length)) as FeedBatch)
    }
  })
  await waitFor(() => batches.length > 0)
  return { batches, leave: () => request.destroy() }
}

/** The same on a bare socket, which reads nothing after the head of the answer. */
async function watchWithoutReading (t: TestContext): Promise<net.Socket> {
  const { host, hostname, port } = new URL(stack.url)
  const socket = net.connect(Number(port), hostname)
  t.teardown(() => socket.destroy())
  const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`GET /api/projects/1/events/live HTTP/1.1\r\n${lines.join('')}\r\n`)
  await once(socket, 'data')
  socket.pause()
  return socket
}

function received ({ batches }: Watcher): number {
  return batches.reduce((sum, { events }) => sum + events.length, 0)
}

/** Counts of a watcher, from zero to its latest. */
function countsOf ({ batches }: Watcher): Pick<FeedBatch, 'matched' | 'shown'> {
  const { matched, shown } = batches.at(-1)!
  return { matched, shown }
}

const LARGE = Array.from({ length: 30 }, () => ({ event: 'large', properties: { text: 'x'.repeat(15_000) } }))

/** Sends 30 events of 15 KB ten times a second at most. */
async function sendLarge (requests: number): Promise<void> {
  for (let request = 0; request < requests; request++) await Promise.all([send(stack, LARGE), delay(100)])
}

t.test('twenty watchers get exact counts of the events that came and of those that they see', async (t) => {
  const watchers = await Promise.all(Array.from({ length: 20 }, async () => await watch(t)))
  const rare = await watch(t, '?event=rare')

  // More than are shown in so short a time, with a rare one among them.
  await Promise.all(Array.from({ length: 40 }, async (_, request) => {
    await send(stack, Array.from({ length: 100 }, (_, index) => ({ event: request % 8 === 0 && index === 50 ? 'rare' : 'paid' })))
  }))
  await waitFor(() => watchers.every((watcher) => countsOf(watcher).matched === 4000) && countsOf(rare).matched === 5)

  for (const watcher of watchers) t.equal(received(watcher), countsOf(watcher).shown)
  const { shown } = countsOf(watchers[0]!)
  t.ok(shown > 50 && shown < 4000, `sampled: ${shown} of 4,000`)
  t.same(countsOf(rare), { matched: 5, shown: 5 }, 'a rare one is shown to whoever asks for it')
  t.equal((await fetch(`${stack.url}/api/projects/1/events/live?event=other`, { headers: { ...headers, cookie: '' } })).status, 401)
})

t.test('a watcher that does not read, and one that is cut off, hold up nobody', async (t) => {
  const reading = await watch(t)
  const slow = await watchWithoutReading(t)
  const cut = await watchWithoutReading(t)
  await sendLarge(2)
  cut.destroy()

  await sendLarge(70)

  await waitFor(() => countsOf(reading).matched === 72 * LARGE.length)
  t.equal(received(reading), countsOf(reading).shown)
  let tail = ''
  slow.on('data', (chunk: Buffer) => {
    tail = (tail + chunk.toString('latin1')).slice(-1_000_000)
  })
  slow.resume()
  await waitFor(async () => {
    await send(stack, [{ event: 'last' }])
    return tail.includes('"event":"last"')
  })
  const [, matched] = [...tail.matchAll(/"matched":(\d+),"shown":(\d+)/g)].at(-1)!.map(Number)
  t.ok(matched! > 72 * LARGE.length, 'its count goes on')
})

/** Two seconds are promised, on a machine with time for it. */
const MAX_SEEN_MS = 20_000

t.test('an event is seen within seconds, and one dropped event of a reason each second with its name', async (t) => {
  const watcher = await watch(t)
  const seen = (event: string): FeedBatch['events'][number] | undefined =>
    watcher.batches.flatMap(({ events }) => events).find((one) => one.event === event)
  const tookMs: number[] = []
  for (let second = 0; second < 6; second++) {
    const sentAt = performance.now()
    // Both without a uuid, as by hand.
    await send(stack, [{ event: `stored ${second}` }, { event: `dropped ${second}`, distinct_id: '' }])
    await waitFor(() => seen(`stored ${second}`) !== undefined && seen(`dropped ${second}`) !== undefined)
    tookMs.push(performance.now() - sentAt)
    await delay(Math.max(0, 1100 - performance.now() + sentAt))
  }
  t.comment(tookMs.map(Math.round).join(' '))
  t.ok(Math.min(...tookMs) < MAX_SEEN_MS, `${Math.round(Math.min(...tookMs))} ms`)
  t.match(seen('stored 5'), { drop: null, isQuarantined: false, sentCharacters: 0 })
  t.match(seen('dropped 5'), { drop: 'missing_distinct_id', isQuarantined: false, sent: '' })
  const names = watcher.batches.flatMap(({ events }) => events).map(({ event }) => event).filter((name) => /^(stored|dropped) \d$/.test(name))
  t.equal(names.length, 12, 'each once')
})
