import http from 'node:http'
import { randomUUID } from 'node:crypto'

/** What the clients know: the ground truth of an audit. */
export interface SdkLoad {
  /** Every uuid whose batch was answered with 200. */
  acknowledged: Set<string>
  /** Every uuid ever sent, acknowledged or given up. */
  sent: Set<string>
  /** Requests that got no 200 at the first try. */
  retries: number
  /** Batches given up after all tries. */
  givenUp: number
  /** Longest time between two acknowledged batches, in milliseconds. */
  longestStallMs: number
  /** Stops sending and resolves when no request is in flight. */
  stop (): Promise<void>
}

export interface SdkLoadOptions {
  /** Ports of the ingest processes; a client that fails tries the next one, as behind a load balancer. */
  ports: readonly number[]
  apiKey: string
  eventsPerSecond: number
  clients?: number
  batchSize?: number
  /** Share of batches that are sent a second time although they were acknowledged, as after a lost answer. */
  repeatShare?: number
  random: () => number
}

const RETRY_PAUSE_MS = 200
const REQUEST_TIMEOUT_MS = 10_000
/** How long a client keeps trying a batch before it gives up, as SDKs do. */
const GIVE_UP_AFTER_MS = 60_000

/** Sends batches at a steady rate with clients that retry on anything but 200, and remembers what was acknowledged. */
export function startSdkLoad (options: SdkLoadOptions): SdkLoad {
  const { clients = 8, batchSize = 25, repeatShare = 0.02, random } = options
  const agent = new http.Agent({ keepAlive: true, maxSockets: clients * 2 })
  const load: SdkLoad = {
    acknowledged: new Set(),
    sent: new Set(),
    retries: 0,
    givenUp: 0,
    longestStallMs: 0,
    async stop () {
      stopping.abort()
      await running
      agent.destroy()
    }
  }
  const stopping = new AbortController()
  let acknowledgedAt = performance.now()
  const pauseMs = clients * batchSize / options.eventsPerSecond * 1000
  const running = Promise.all(Array.from({ length: clients }, runClient))

  async function runClient (_: unknown, client: number): Promise<void> {
    let dueAt = performance.now() + random() * pauseMs
    while (!stopping.signal.aborted) {
      const waitMs = dueAt - performance.now()
      if (waitMs > 0) await pause(waitMs)
      // A client that was held up does not flood the server afterwards: SDKs send at the pace of their users.
      dueAt = Math.max(dueAt + pauseMs, performance.now())
      await sendBatch(client)
    }
  }

  async function sendBatch (client: number): Promise<void> {
    const uuids = Array.from({ length: batchSize }, makeUuid)
    const body = Buffer.from(JSON.stringify({
      api_key: options.apiKey,
      sent_at: new Date().toISOString(),
      batch: uuids.map((uuid, index) => ({
        event: `fault event ${index % 5}`,
        distinct_id: `client-${client}-${index % 7}`,
        uuid,
        timestamp: new Date().toISOString(),
        properties: { index, client, text: 'x'.repeat(index * 10) }
      }))
    }))
    for (const uuid of uuids) load.sent.add(uuid)
    const startedAt = performance.now()
    for (let attempt = 0; performance.now() - startedAt < GIVE_UP_AFTER_MS; attempt++) {
      const port = options.ports[(client + attempt) % options.ports.length] as number
      if (await post(port, body) === 200) {
        acknowledge(uuids)
        if (random() < repeatShare) await post(options.ports[(client + 1) % options.ports.length] as number, body)
        return
      }
      load.retries++
      await pause(RETRY_PAUSE_MS)
    }
    load.givenUp++
  }

  function acknowledge (uuids: readonly string[]): void {
    for (const uuid of uuids) load.acknowledged.add(uuid)
    const now = performance.now()
    load.longestStallMs = Math.max(load.longestStallMs, now - acknowledgedAt)
    acknowledgedAt = now
  }

  async function post (port: number, body: Buffer): Promise<number> {
    return await new Promise((resolve) => {
      const request = http.request({
        port, host: '127.0.0.1', path: '/batch/', method: 'POST', agent, timeout: REQUEST_TIMEOUT_MS,
        headers: { 'content-type': 'application/json', 'content-length': body.length }
      }, (response) => {
        response.resume()
        response.once('end', () => resolve(response.statusCode ?? 0))
        response.once('error', () => resolve(0))
      })
      request.once('timeout', () => request.destroy())
      request.once('error', () => resolve(0))
      request.end(body)
    })
  }

  return load
}

/** A UUIDv7, as current SDKs make them. */
function makeUuid (): string {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

async function pause (ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
}
