/**
 * `npm run check:proxies`: puts nginx and Caddy of Debian, with the files of `deploy/proxy/`, before a running stack,
 * and looks at what clients and ingest see. Takes a minute; fetches the two packages when they are not on PATH.
 */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import https from 'node:https'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { HEALTH_PATHS } from '../../platform/health-and-readiness.ts'
import { sendRaw } from '../support/local-ports.ts'
import { spellPath } from '../support/path-spellings.ts'
import { startStack } from '../start-stack.ts'
import { CERTIFICATES, findProxy, type Proxy, PROXIES, startProxy } from './start-proxy.ts'

interface Answer {
  status: number
  body: string
  /** Of the client's end of the connection. */
  port: number
}

const FORGED = '203.0.113.9'
const folder = await mkdtemp(path.join(tmpdir(), 'millrace-proxies-'))
const stack = await startStack({ env: { MILLRACE_TRUSTED_PROXIES: 'loopback' } })
let failures = 0
try {
  for (const name of PROXIES) {
    const binary = await findProxy(name, folder)
    const proxy = await startProxy(name, { binary, folder, origin: new URL(stack.url).host })
    try {
      await check(name, proxy)
    } finally {
      await proxy.stop()
    }
  }
} finally {
  await stack.stop()
  await rm(folder, { recursive: true, force: true })
}
process.exitCode = failures === 0 ? 0 : 1

async function check (name: string, proxy: Proxy): Promise<void> {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1, ca: CERTIFICATES.authority })
  const send = async (target: string, body?: string, headers: Record<string, string> = {}): Promise<Answer> => {
    const request = https.request({
      agent,
      host: '127.0.0.1',
      port: proxy.port,
      servername: 'localhost',
      path: target,
      method: body === undefined ? 'GET' : 'POST',
      headers: { host: `localhost:${proxy.port}`, 'x-forwarded-for': FORGED, ...headers }
    })
    // `once` hears of the first error; a connection that is gone may report another one.
    request.on('error', () => {})
    request.end(body)
    const [response] = await once(request, 'response') as [IncomingMessage]
    const port = response.socket.localPort ?? 0
    return { status: response.statusCode ?? 0, body: await text(response), port }
  }
  const json = { 'content-type': 'application/json' }
  const event = `through ${name}`

  const captured = await send('/capture/', JSON.stringify({ api_key: stack.projectApiKey, event, distinct_id: 'd' }), json)
  report(name, 'an event is answered with 200 over TLS', captured.status === 200)
  report(name, 'the connection of a client is kept', (await send('/flags/?v=2', '{}', json)).port === captured.port)
  const rows = await waitForEvent(event)
  report(name, `the stored address is that of the client, not what it claims (${rows})`, rows === '127.0.0.1')

  const flags = '/api/projects/1/feature_flags/'
  const authorization = `Bearer ${stack.personalApiKey}`
  const created = await send(flags, JSON.stringify({ key: `a-${name}` }), { ...json, authorization })
  report(name, 'management is reached', created.status === 201)
  await send(flags, JSON.stringify({ key: `b-${name}` }), { ...json, authorization })
  const page = await send(`${flags}?limit=1`, undefined, { authorization })
  const { next } = JSON.parse(page.body) as { next: string }
  report(name, `links of pages lead through it (${next})`, next.startsWith(`https://localhost:${proxy.port}/`))

  const batch = (bytes: number): string => JSON.stringify({
    api_key: stack.projectApiKey,
    batch: Array.from({ length: Math.ceil(bytes / 100_000) }, (_, index) =>
      ({ event: 'large', distinct_id: 'd', properties: { index, text: 'x'.repeat(99_900) } }))
  })
  report(name, 'a body of 19 MB is taken', (await send('/batch/', batch(18_900_000), json)).status === 200)
  // A proxy may hang up on what it will not read.
  const refusal = await send('/batch/', batch(21_500_000), json)
    .then(({ status }) => status, (error: NodeJS.ErrnoException) => error.code)
  report(name, `a body of 21.5 MB is refused (${refusal})`, [413, 'EPIPE', 'ECONNRESET'].includes(refusal ?? ''))
  const passed: string[] = []
  const taken: string[] = []
  for (const spelling of HEALTH_PATHS.flatMap(spellPath)) {
    // Without a status: hung up on.
    const { status = 400 } = await send(spelling).catch((): Partial<Answer> => ({}))
    if (status < 400) passed.push(spelling)
    if (await isTaken(spelling)) taken.push(spelling)
  }
  report(name, `metrics and health stay inside, in the ${taken.length} spellings that ingest takes and in others ${passed.join(' ')}`,
    passed.length === 0 && taken.length > HEALTH_PATHS.length)
  agent.destroy()
}

/** Whether ingest answers the path as it stands, without a proxy. */
async function isTaken (target: string): Promise<boolean> {
  return (await sendRaw(Number(new URL(stack.url).port), `GET ${target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`)).includes(' 200 OK')
}

async function waitForEvent (event: string): Promise<string> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const [row] = await stack.select<{ ip: string }>('SELECT ip FROM events WHERE event = {event: String}', { event })
    if (row !== undefined) return row.ip
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return 'not stored'
}

function report (proxy: string, what: string, isGood: boolean): void {
  if (!isGood) failures++
  process.stdout.write(`${isGood ? 'ok    ' : 'NOT OK'} ${proxy}: ${what}\n`)
}
