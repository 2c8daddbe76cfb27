import http from 'node:http'
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../support/random.ts'
import { LoadLedger } from './load-ledger.ts'

export interface SdkLoad {
  /** The ground truth of an audit. */
  ledger: LoadLedger
  /** Resolves with a uuid of a batch that was begun after the call, once it is acknowledged. */
  nextAcknowledged (): Promise<string>
  /** Stops sending and resolves when no request is in flight. */
  stop (): Promise<void>
}

export interface SdkLoadOptions {
  /**
   * Of ingest processes. A client stays with one until it fails, then tries the next. A connection that is refused is
   * tried at the next one at once and is no failure, as behind a load balancer: nothing was sent yet.
   */
  ports: readonly number[]
  apiKey: string
  eventsPerSecond: number
  clients?: number
  batchSize?: number
  /** Share of batches that are sent a second time although they were acknowledged, as after a lost answer. */
  repeatShare?: number
  /** Share of batches that are sent to two ingest processes at the same time. */
  togetherShare?: number
  /** Share of batches with one event named `REFUSABLE_EVENT`. */
  refusableShare?: number
  /** Share of batches that say that they are an import. Default 0. */
  historicalShare?: number
  random: Random
}

/** Name of the rare event that one of the faults makes ClickHouse refuse. */
export const REFUSABLE_EVENT = 'refusable event'

const RETRY_PAUSE_MS = 200
const REQUEST_TIMEOUT_MS = 10_000
/** How long a client keeps trying a batch before it gives up: longer than any fault lasts. */
const GIVE_UP_AFTER_MS = 120_000

/** Nobody listens. */
const REFUSED = 'ECONNREFUSED'

/** Sends batches at a steady rate with clients that retry on anything but 200, and keeps a ledger of them. */
export function startSdkLoad (options: SdkLoadOptions): SdkLoad {
  const { ports, random, clients = 8, batchSize = 25 } = options
  const { repeatShare = 0.02, togetherShare = 0.02, refusableShare = 0.1, historicalShare = 0 } = options
  const agent = new http.Agent({ keepAlive: true, maxSockets: clients * 4 })
  const ledger = new LoadLedger()
  const stopping = new AbortController()
  const waiting = new Set<{ since: number, resolve: (uuid: string) => void }>()
  const beside = new Set<Promise<void>>()
  const pauseMs = clients * batchSize / options.eventsPerSecond * 1000
  const running = Promise.all(Array.from({ length: clients }, runClient))

  async function runClient (_: unknown, client: number): Promise<void> {
    let dueAt = performance.now() + random() * pauseMs
    let port = client
    for (let batch = 0; !stopping.signal.aborted; batch++) {
      const waitMs = dueAt - performance.now()
      // Stopping only ends the pause early.
      if (waitMs > 0) await delay(waitMs, undefined, { signal: stopping.signal }).catch(() => {})
      // A client that was held up does not flood the server afterwards: SDKs send at the pace of their users.
      dueAt = Math.max(dueAt + pauseMs, performance.now())
      port = await sendBatch(client, batch, port)
    }
  }

  /** @returns where the batch was taken. */
  async function sendBatch (client: number, batch: number, firstPort: number): Promise<number> {
    const startedAt = performance.now()
    const { uuids, body } = makeBatch(client, batch)
    ledger.sent(uuids)
    for (let port = firstPort; performance.now() - startedAt < GIVE_UP_AFTER_MS; port++) {
      if (random() < togetherShare) postBeside(port + 1, body)
      const answer = await post(port, body)
      if (answer === '200') {
        acknowledge(uuids, startedAt)
        if (random() < repeatShare) postBeside(port + Math.floor(random() * 2), body)
        return port
      }
      ledger.failed(answer)
      await delay(RETRY_PAUSE_MS)
    }
    ledger.givenUp += uuids.length
    return firstPort
  }

  function makeBatch (client: number, batch: number): { uuids: string[], body: Buffer } {
    const uuids = Array.from({ length: batchSize }, makeUuid)
    const hasRefusable = random() < refusableShare
    const isImport = historicalShare > 0 && random() < historicalShare
    const body = JSON.stringify({
      api_key: options.apiKey,
      sent_at: new Date().toISOString(),
      ...isImport ? { historical_migration: true } : {},
      batch: uuids.map((uuid, index) => ({
        event: hasRefusable && index === batchSize - 1 ? REFUSABLE_EVENT : `fault event ${index % 5}`,
        distinct_id: `client-${client}-${batch % 100}-${index % 7}`,
        uuid,
        timestamp: new Date().toISOString(),
        properties: {
          index, client, text: 'x'.repeat(index * 10), ...(index === 0 ? { $set: { client, batch } } : {})
        }
      }))
    })
    return { uuids, body: Buffer.from(body) }
  }

  function acknowledge (uuids: readonly string[], startedAt: number): void {
    ledger.acknowledged(uuids)
    for (const waiter of waiting) {
      if (startedAt < waiter.since) continue
      waiting.delete(waiter)
      waiter.resolve(uuids[0] as string)
    }
  }

  /** Sends without waiting for the answer, which changes nothing. */
  function postBeside (port: number, body: Buffer): void {
    const answered = post(port, body).then(() => { beside.delete(answered) })
    beside.add(answered)
  }

  /** @returns the status, or what kept it away. */
  async function post (firstPort: number, body: Buffer): Promise<string> {
    for (let port = firstPort; port < firstPort + ports.length; port++) {
      const answer = await postTo(port, body)
      if (answer !== REFUSED) return answer
    }
    return REFUSED
  }

  async function postTo (port: number, body: Buffer): Promise<string> {
    return await new Promise((resolve) => {
      const request = http.request({
        port: ports[port % ports.length], host: '127.0.0.1', path: '/batch/', method: 'POST', agent,
        timeout: REQUEST_TIMEOUT_MS,
        headers: { 'content-type': 'application/json', 'content-length': body.length }
      }, (response) => {
        response.resume()
        response.once('end', () => resolve(String(response.statusCode)))
        response.once('error', ({ message }) => resolve(message))
      })
      request.once('timeout', () => request.destroy(new Error('timeout')))
      request.once('error', ({ code, message }: NodeJS.ErrnoException) => resolve(code ?? message))
      request.once('close', () => resolve('closed'))
      request.end(body)
    })
  }

  return {
    ledger,
    async nextAcknowledged () {
      return await new Promise((resolve) => waiting.add({ since: performance.now(), resolve }))
    },
    async stop () {
      stopping.abort()
      await running
      await Promise.all(beside)
      agent.destroy()
    }
  }
}

/** A UUIDv7, as current SDKs make them. */
function makeUuid (): string {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
