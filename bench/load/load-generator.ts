import { fork } from 'node:child_process'
import { gzipSync } from 'node:zlib'
import { createEventSource, type EventOptions } from './prepare-events.ts'
import { buildPost, type LoadResult, sendByFetch, sendRequests } from './send-requests.ts'

/** Job of the load generator, which prepares all bodies first and starts on command. */
export interface LoadOrder {
  port: number
  path: string
  apiKey: string
  seed: number
  requests: number
  eventsPerRequest: number
  connections: number
  gzip: boolean
  ratePerSecond?: number
  events?: EventOptions
  /** Sends by `fetch`, as SDKs do, instead of on bare sockets. */
  byFetch?: boolean
  /** Sends these JSON texts in turn instead of made-up events. */
  bodies?: string[]
}

type LoadMessage = { kind: 'prepared', bytes: number } | { kind: 'done', result: LoadResult }

/** A load generator that has prepared its bodies and waits. */
export interface PreparedLoad {
  /** Bytes that it will send. */
  bytes: number
  /** Sends everything and resolves with what came back. */
  run (): Promise<LoadResult>
}

/** Starts a load generator process and resolves when its bodies are prepared. */
export async function prepareLoad (order: LoadOrder): Promise<PreparedLoad> {
  const child = fork(import.meta.filename)
  const receive = async <K extends LoadMessage['kind']> (kind: K): Promise<Extract<LoadMessage, { kind: K }>> =>
    await new Promise((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`the load generator ended with ${code}`)))
      child.on('message', (message: LoadMessage) => {
        if (message.kind === kind) resolve(message as Extract<LoadMessage, { kind: K }>)
      })
    })
  const prepared = receive('prepared')
  child.send(order)
  const { bytes } = await prepared
  return {
    bytes,
    async run () {
      const done = receive('done')
      child.send('go')
      return (await done).result
    }
  }
}

// A process of its own, started with this file, so that its CPU is never counted as the server's.
if (process.argv[1] === import.meta.filename) awaitOrder()

function awaitOrder (): void {
  process.once('message', (order: LoadOrder) => {
    if (order.byFetch === true) return fetchAll(order)
    const requests = prepareRequests(order)
    report({ kind: 'prepared', bytes: requests.reduce((sum, request) => sum + request.length, 0) })
    process.once('message', () => {
      void sendRequests(requests, order).then((result) => {
        report({ kind: 'done', result }, () => { process.disconnect?.() })
      })
    })
  })
}

function fetchAll (order: LoadOrder): void {
  const nextEvent = createEventSource(order.seed, order.events)
  const bodies = Array.from({ length: order.requests }, () => JSON.stringify({ api_key: order.apiKey, ...nextEvent() }))
  report({ kind: 'prepared', bytes: bodies.reduce((sum, body) => sum + body.length, 0) })
  process.once('message', () => {
    void sendByFetch(`http://127.0.0.1:${order.port}${order.path}`, bodies, order.connections).then((result) => {
      report({ kind: 'done', result }, () => { process.exit() })
    })
  })
}

function prepareRequests (order: LoadOrder): Buffer[] {
  if (order.bodies !== undefined) {
    const prepared = order.bodies.map((body) => buildPost(order.path, Buffer.from(body)))
    return Array.from({ length: order.requests }, (_, index) => prepared[index % prepared.length] as Buffer)
  }
  const nextEvent = createEventSource(order.seed, order.events)
  return Array.from({ length: order.requests }, () => prepareRequest(order, nextEvent))
}

function prepareRequest (order: LoadOrder, nextEvent: () => object): Buffer {
  const body = order.eventsPerRequest === 1
    ? { api_key: order.apiKey, ...nextEvent() }
    : {
        api_key: order.apiKey,
        batch: Array.from({ length: order.eventsPerRequest }, nextEvent),
        sent_at: new Date().toISOString()
      }
  const json = Buffer.from(JSON.stringify(body))
  return order.gzip
    ? buildPost(order.path, gzipSync(json), { 'content-encoding': 'gzip' })
    : buildPost(order.path, json)
}

function report (message: LoadMessage, whenSent: () => void = () => {}): void {
  process.send?.(message, whenSent)
}
