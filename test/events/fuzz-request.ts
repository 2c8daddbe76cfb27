import zlib from 'node:zlib'
import LZString from 'lz-string'
import { buildEvent, type Choices, type FuzzEvent } from './fuzz-events.ts'

/** A request, and what must come of it. */
export interface FuzzRequest {
  path: string
  body: Buffer
  headers: Record<string, string>
  /** Status and code of the answer; null when only "no 5xx" is asked. */
  expected: { status: number, code?: string } | null
  /** Events of the body, when the answer is 200. */
  events: FuzzEvent[]
}

export interface FuzzKeys {
  project: string
  team: string
  personal: string
  /** Key of the project that only damaged bodies name: their stored form is not predicted. */
  damaged: string
}

const PATHS = ['/batch/', '/batch', '/e/', '/capture/', '/i/v0/e/', '/track']
const FORM = { 'content-type': 'application/x-www-form-urlencoded' }

/** Builds a request of one of the kinds in the table of bad input, good ones among them. */
export function buildRequest (choices: Choices, ordinal: number, keys: FuzzKeys): FuzzRequest {
  const count = choices.once(3) ? 1 : choices.below(12)
  const events = Array.from({ length: count }, (_, i) => buildEvent(choices, ordinal * 16 + i))
  const path = choices.pick(PATHS)
  const kind = choices.below(20)
  if (kind === 0) return buildRefused(choices, path, events, keys)
  if (kind === 1) return buildBroken(choices, path, events, keys)
  if (kind === 2) return buildDamaged(choices, path, events, keys)
  const { json, taken } = wrapEvents(choices, events, keys)
  return { ...wrapBody(choices, path, Buffer.from(json)), expected: { status: 200 }, events: taken }
}

function wrapEvents (choices: Choices, events: FuzzEvent[], keys: FuzzKeys): { json: string, taken: FuzzEvent[] } {
  const key = choices.pick([keys.project, keys.team])
  const list = events.map(({ json }) => json).join(',')
  const sentAt = choices.pick(['', ',"sent_at":"2026-11-20T10:00:01.000Z"', ',"sent_at":null', ',"sent_at":"soon"', ',"sent_at":{}'])
  switch (choices.below(5)) {
    case 0: return { json: `{"api_key":"${keys.personal}","project_id":1,"batch":[${list}]}`, taken: events }
    case 1: return { json: `{"batch": [ ${list} ], "token": " ${key} ", "historical_migration": true}`, taken: events }
    case 2: {
      // In an array the key travels with the events; one that is always storable carries it.
      const carrier: FuzzEvent = { json: '', ordinal: -1, isStorable: false }
      return { json: `[${[`{"token":"${key}"}`, ...events.map(({ json }) => json)].join(',')}]`, taken: [carrier, ...events] }
    }
    default: return { json: `{"api_key":"${key}","batch":[${list}]${sentAt}}`, taken: events }
  }
}

function wrapBody (choices: Choices, path: string, json: Buffer): Pick<FuzzRequest, 'body' | 'headers' | 'path'> {
  const headers = { 'content-type': choices.pick(['application/json', 'text/plain', 'application/json; charset=utf-8']) }
  switch (choices.below(9)) {
    case 0: return { path, headers: { ...headers, 'content-encoding': 'gzip' }, body: zlib.gzipSync(json) }
    case 1: return { path: `${path}?compression=gzip-js`, headers, body: zlib.gzipSync(json) }
    case 2: return { path, headers, body: zlib.gzipSync(json) }
    case 3: return { path, headers, body: Buffer.from(json.toString('base64')) }
    case 4: return { path, headers: FORM, body: Buffer.from(new URLSearchParams({ data: json.toString('base64') }).toString()) }
    case 5: return { path, headers: FORM, body: Buffer.from(new URLSearchParams({ data: json.toString() }).toString()) }
    case 6: {
      // The library takes seconds for megabytes.
      if (json.length > 20_000) break
      return { path: `${path}?compression=lz64`, headers, body: Buffer.from(LZString.compressToBase64(json.toString())) }
    }
  }
  return { path, headers, body: json }
}

/** Well-formed, with a key that is not accepted. */
function buildRefused (choices: Choices, path: string, events: FuzzEvent[], keys: FuzzKeys): FuzzRequest {
  const batch = `"batch":[${events.map(({ json }) => json).join(',')}]`
  const [json, status, code] = choices.pick([
    [`{${batch}}`, 401, 'invalid_api_key'],
    [`{"api_key":"","token":null,${batch}}`, 401, 'invalid_api_key'],
    [`{"api_key":"phc_unknown\\u0000",${batch}}`, 401, 'invalid_api_key'],
    [`{"api_key":"${'k'.repeat(5000)}",${batch}}`, 401, 'invalid_api_key'],
    [`{"api_key":"phx_unknown",${batch}}`, 401, 'invalid_personal_api_key'],
    [`{"api_key":"${keys.personal}",${batch}}`, 400, 'invalid_project'],
    [`{"api_key":"${keys.personal}","project_id":"x",${batch}}`, 400, 'invalid_project'],
    [`{"api_key":"${keys.project}","batch":{}}`, 400, 'invalid_batch']
  ] as const)
  return { ...wrapBody(choices, path, Buffer.from(json)), expected: { status, code }, events: [] }
}

/** A body that cannot be read, in a known way. */
function buildBroken (choices: Choices, path: string, events: FuzzEvent[], { project }: FuzzKeys): FuzzRequest {
  const json = `{"api_key":"${project}","batch":[${events.map((event) => event.json).join(',')}]}`
  const gzip = zlib.gzipSync(json)
  const [body, query, code] = choices.pick<readonly [string | Buffer, string, string]>([
    ['', '', 'empty_body'],
    [json.slice(0, -1 - choices.below(5)), '', 'invalid_json'],
    [`${json}}`, '', 'invalid_json'],
    ['hello, world!', '', 'invalid_json'],
    ['"text"', '', 'invalid_body'],
    [gzip.subarray(0, gzip.length - 9), '', 'invalid_gzip'],
    ['no gzip!', '?compression=gzip', 'invalid_gzip'],
    ['%%%', '?compression=base64', 'invalid_base64'],
    ['!!!', '?compression=lz64', 'invalid_lz64']
  ])
  return { path: path + query, body: Buffer.from(body), headers: {}, expected: { status: 400, code }, events: [] }
}

/** A good body with some bytes changed: anything but a 5xx may come of it. */
function buildDamaged (choices: Choices, path: string, events: FuzzEvent[], { damaged }: FuzzKeys): FuzzRequest {
  const json = `{"api_key":"${damaged}","batch":[${events.map((event) => event.json).join(',')}]}`
  const request = wrapBody(choices, path, Buffer.from(json))
  const body = Buffer.from(request.body)
  for (let i = choices.below(4); i >= 0; i--) body[choices.below(body.length)] = choices.below(256)
  return { ...request, body, expected: null, events: [] }
}
