import http from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { createRandom, pickOne } from '../../../test/support/random.ts'
import { addFlags, createTestDecide } from '../../testing/create-test-decide.ts'
import { detectRuntime } from './detect-runtime.ts'

const CHROME = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36'
const PAGE = { origin: 'https://shop.example', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' }

const decide = await createTestDecide(t)
const payloads = { true: '"secret"' }
await addFlags(decide, [
  { key: 'any' },
  { key: 'of-clients', evaluation_runtime: 'client' },
  { key: 'of-servers', evaluation_runtime: 'server', filters: { groups: [{}], payloads } }
])

const EVERY = 'any'
const OF_CLIENTS = 'any of-clients'
const OF_SERVERS = 'any of-servers'
const ALL = 'any of-clients of-servers'

type Headers = Record<string, string>

/** Sends these headers and no others: `fetch` adds some of a browser. */
async function post (
  path: string, headers: Headers, body: object
): Promise<{ status: number, answer: any, raw: string }> {
  const request = http.request(decide.url + path, {
    method: 'POST', headers: { 'content-type': 'application/json', ...headers }
  })
  request.end(JSON.stringify(body))
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    request.on('response', resolve).on('error', reject)
  })
  const raw = await text(response)
  return { status: response.statusCode ?? 0, answer: JSON.parse(raw), raw }
}

async function keysOf (path: string, headers: Headers, body: object = {}): Promise<string> {
  const { answer, raw } = await post(path, headers, { token: decide.projectKey, distinct_id: 'u', ...body })
  const { flags, featureFlags } = answer
  const keys = Array.isArray(featureFlags) ? featureFlags : Object.keys(flags ?? featureFlags)
  if (!keys.includes('of-servers') && raw.includes('secret')) throw new Error('the payload without its flag')
  return keys.join(' ')
}

async function keysOfOfrep (headers: Headers, context: object = {}): Promise<string> {
  const { answer } = await post('/ofrep/v1/evaluate/flags', { 'x-api-key': decide.projectKey, ...headers }, {
    context: { targetingKey: 'u', ...context }
  })
  return answer.flags.map(({ key }: { key: string }) => key).join(' ')
}

t.test('flags for servers reach the SDKs of servers only, those for clients browsers and apps', async (t) => {
  const cases: Array<[Headers, string]> = [
    [{ 'user-agent': CHROME, ...PAGE }, OF_CLIENTS],
    [{ 'user-agent': CHROME }, OF_CLIENTS],
    [{ ...PAGE }, OF_CLIENTS],
    [{ referer: 'https://shop.example/' }, OF_CLIENTS],
    [{ 'user-agent': 'posthog-ios/3.69.3' }, OF_CLIENTS],
    [{ 'user-agent': 'posthog-android/3.60.4' }, OF_CLIENTS],
    [{ 'user-agent': 'posthog-react-native/4.63.5' }, OF_CLIENTS],
    [{ 'user-agent': 'posthog-flutter/5.36.6' }, OF_CLIENTS],
    [{ 'user-agent': 'posthog-python/7.42.0' }, OF_SERVERS],
    [{ 'user-agent': 'posthog-node/5.70.0', 'sec-fetch-mode': 'cors' }, OF_SERVERS],
    [{ 'user-agent': 'posthog-dotnet/2.13.3 (.NET 10.0.0; Debian GNU/Linux 13 (trixie); X64)' }, OF_SERVERS],
    [{ 'user-agent': 'curl/8.14.1' }, OF_SERVERS],
    [{}, EVERY],
    [{ 'user-agent': 'okhttp/4.11.0' }, EVERY],
    [{ 'user-agent': 'Shop/1.2 CFNetwork/1410 Darwin/22.6.0' }, EVERY],
    [{ 'user-agent': 'posthog-unknown/1' }, EVERY],
    [{ 'user-agent': 'posthog-node' }, EVERY]
  ]

  for (const [headers, expected] of cases) {
    for (const path of ['/flags/?v=2', '/flags/?v=1', '/decide/?v=1', '/decide/?v=3']) {
      t.equal(await keysOf(path, headers), expected, `${path} ${JSON.stringify(headers)}`)
    }
    t.equal(await keysOfOfrep(headers), expected, `OFREP ${JSON.stringify(headers)}`)
  }
})

t.test('a request may state its runtime, but a page cannot state that it is a server', async (t) => {
  const forwarded = { 'user-agent': CHROME }
  const byFetchOfNode = { 'user-agent': 'node', 'sec-fetch-mode': 'cors' }

  for (const headers of [{}, forwarded, byFetchOfNode]) {
    t.equal(await keysOf('/flags/?v=2', headers, { evaluation_runtime: 'server' }), OF_SERVERS)
    t.equal(await keysOf('/flags/?v=2', headers, { evaluation_runtime: 'ALL' }), ALL)
    t.equal(await keysOfOfrep(headers, { evaluation_runtime: 'server' }), OF_SERVERS)
  }
  t.equal(await keysOf('/flags/?v=2', { 'user-agent': 'posthog-python/7.42.0' }, { evaluation_runtime: 'client' }), OF_CLIENTS)
  for (const page of [PAGE, { origin: 'null' }, { 'sec-fetch-site': 'same-origin' }, { ...PAGE, 'user-agent': 'posthog-node/5.70.0' }]) {
    for (const stated of ['server', 'all', 'nonsense']) {
      t.equal(await keysOf('/flags/?v=2', page, { evaluation_runtime: stated }), OF_CLIENTS, JSON.stringify([page, stated]))
      t.equal(await keysOfOfrep(page, { evaluation_runtime: stated }), OF_CLIENTS)
    }
  }
  for (const stated of ['nonsense', '', 5, true, null, ['server'], { server: true }]) {
    t.equal(await keysOf('/flags/?v=2', {}, { evaluation_runtime: stated }), EVERY, `${JSON.stringify(stated)} states nothing`)
  }
  t.match(await post('/ofrep/v1/evaluate/flags/of-servers', { 'x-api-key': decide.projectKey, ...PAGE }, { context: { targetingKey: 'u' } }),
    { status: 404, answer: { errorCode: 'FLAG_NOT_FOUND' } })
})

const NAMES = ['python', 'ruby', 'php', 'java', 'go', 'node', 'dotnet', 'elixir', 'rs', 'server', 'js', 'android', 'ios',
  'react-native', 'flutter', 'unity', 'js-lite', 'NODE', '', 'constructor']
const OTHERS = [CHROME, 'Mozilla/5.0', 'Edge/18', 'x Safari/1', 'curl/8', 'wrap curl/8 posthog-node/1', 'python-requests/2.28.0', 'node',
  'okhttp/4.11.0', 'Go-http-client/2.0', 'Posthog-node/1', 'x posthog-node/1', 'posthog', '']
const AGENTS = [...OTHERS, ...NAMES.flatMap((name) =>
  [`posthog-${name}/1.2.3`, `posthog-${name}/1 (Linux) Chrome/1`, `posthog-${name}`, `posthog-${name}/`, `posthog-${name}/  `])]
const STATED = [undefined, undefined, undefined, 'server', 'client', 'all', 'SERVER', 'Client', 'servers', '', null, 1, ['server'], {}]

/** The rule of the reference, written without looking at ours; beyond it, a page is never taken for a server. */
function expected (stated: unknown, headers: Headers): string {
  const isPage = 'origin' in headers || 'sec-fetch-site' in headers
  const said = typeof stated === 'string' ? stated.toLowerCase() : ''
  if (['server', 'client', 'all'].includes(said)) return isPage ? 'client' : said
  const agent = headers['user-agent'] ?? ''
  let found = 'unknown'
  if (agent.startsWith('posthog-') && agent.includes('/')) {
    const [name = '', ...version] = agent.slice('posthog-'.length).split('/')
    if (version.join('/').trim() !== '') {
      if (NAMES.slice(0, 10).includes(name)) found = 'server'
      if (NAMES.slice(10, 15).includes(name)) found = 'client'
    }
  } else if (!agent.startsWith('posthog-')) {
    if (['curl/', 'python-requests/'].some((part) => agent.includes(part))) found = 'server'
    if (['Mozilla/', 'Chrome/', 'Safari/', 'Firefox/', 'Edge/'].some((part) => agent.includes(part))) found = 'client'
  }
  if (isPage) return 'client'
  return found === 'unknown' && ('referer' in headers || 'sec-fetch-mode' in headers) ? 'client' : found
}

const KEYS: Record<string, string> = { server: OF_SERVERS, client: OF_CLIENTS, all: ALL, unknown: EVERY }

t.test('random requests are judged by the rule of the reference, and no client gets a flag for servers', async (t) => {
  const random = createRandom(20_261_125)
  const counts: Record<string, number> = {}
  for (let i = 0; i < 200_000; i++) {
    const headers: Headers = {}
    if (random() < 0.9) headers['user-agent'] = pickOne(AGENTS, random)
    for (const [name, value] of Object.entries({ ...PAGE, referer: 'https://shop.example/' })) {
      if (random() < 0.15) headers[name] = value
    }
    const stated = pickOne(STATED, random)
    const wanted = expected(stated, headers)
    const found = detectRuntime(stated, headers)
    if (found !== wanted) t.fail(`${found} instead of ${wanted}`, { stated, headers })
    counts[found] = (counts[found] ?? 0) + 1
    if (i % 400 !== 0) continue

    const body = stated === undefined ? {} : { evaluation_runtime: stated }
    const lib = pickOne([{}, { person_properties: { $lib: 'web' } }, { person_properties: { $lib: 'posthog-python', $is_server: true } }], random)
    const [keys, ofrep] = [
      await keysOf(pickOne(['/flags/?v=2', '/flags/?v=1', '/decide/?v=3', '/decide/?v=4'], random), headers, { ...body, ...lib }),
      await keysOfOfrep(headers, body)
    ]
    if (keys !== KEYS[wanted] || ofrep !== KEYS[wanted]) t.fail(`${keys}, ${ofrep} for a ${wanted}`, { stated, headers })
    counts['asked over HTTP'] = (counts['asked over HTTP'] ?? 0) + 2
  }

  t.comment(JSON.stringify(counts))
  t.ok(['server', 'client', 'all', 'unknown'].every((runtime) => (counts[runtime] ?? 0) > 5000), 'each runtime came up')
})
