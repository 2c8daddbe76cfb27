import zlib from 'node:zlib'
import LZString from 'lz-string'

/** A body that is made to cost much more than it is. */
export interface HostileBody {
  name: string
  path: string
  /** Takes up to a second. */
  build: () => Buffer
  headers?: Record<string, string>
}

/** Just below `MILLRACE_MAX_DECOMPRESSED_BYTES`. */
const FULL = 100_000_000

/**
 * Bodies of a holder of a project key, each as large as a body may be once it is inflated, in every form that is taken.
 *
 * @param scale  Share of the full size.
 */
export function hostileBodies (key: string, scale = 1): HostileBody[] {
  const full = FULL * scale
  const event = (...properties: (Buffer | string)[]): Buffer =>
    joined(`{"api_key":"${key}","event":"e","distinct_id":"d","properties":`, ...properties, '}')
  const batch = (...events: (Buffer | string)[]): Buffer => joined(`{"api_key":"${key}","batch":[`, ...events, ']}')
  const batchOf = (events: number, one: Buffer | string): Buffer =>
    batch(repeat(`${one.toString()},`, Math.ceil(events * scale) * (one.length + 1)), '{}')
  const brackets = (bytes = full): Buffer => joined(repeat('[', bytes / 2), repeat(']', bytes / 2))
  const gzip = (name: string, build: () => Buffer, path = '/batch/', headers = {}): HostileBody =>
    ({ name, path, build: () => zlib.gzipSync(build()), headers })
  const encoded = (encoding: string, compress: (body: Buffer) => Buffer): HostileBody =>
    ({ name: `brackets, ${encoding}`, path: '/e/', build: () => compress(event(brackets())), headers: { 'content-encoding': encoding } })
  const fastBrotli = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }
  const bearer = { authorization: `Bearer ${key}` }
  const basic = { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` }
  const inParts = { ...bearer, 'content-type': 'multipart/form-data; boundary=b' }
  return [
    gzip('brackets', () => brackets()),
    gzip('open brackets', () => repeat('[', full)),
    gzip('brackets in an event', () => event(brackets()), '/capture/'),
    gzip('levels of objects', () => event(repeat('{"a":', full * 5 / 6), '1', repeat('}', full / 6))),
    gzip('open levels of objects', () => repeat('{"a":', full)),
    gzip('one name', () => joined('{"a":1', repeat(',"a":1', full), '}')),
    gzip('one name in an event', () => event('{"a":1', repeat(',"a":1', full), '}'), '/i/v0/e/'),
    gzip('numbers', () => joined('[1', repeat(',1', full), ']')),
    gzip('numbers in an event', () => event('{"a":[1', repeat(',1', full), ']}'), '/track/'),
    gzip('numbers in each event', () => batchOf(60, event('{"a":[1', repeat(',1', 1_500_000), ']}'))),
    gzip('empty events', () => batch('{}', repeat(',{}', full))),
    gzip('invalid events', () => batch('1', repeat(',1', full)), '/engage/'),
    gzip('escapes of NUL', () => event('{"a":"', repeat('\\u0000', full), '"}')),
    gzip('escapes of half characters', () => event('{"a":"', repeat('\\ud800', full), '"}')),
    gzip('a number of digits without end', () => event('{"a":', repeat('1', full), '}')),
    gzip('long numbers', () => event('{"a":[1', repeat(',12345678901234567', full), ']}')),
    gzip('NaN', () => event('{"a":[NaN', repeat(',NaN', full), ']}')),
    gzip('NaN without commas', () => event('{"a":', repeat('NaN', full), '}')),
    gzip('empty texts and NaN', () => joined('[', repeat('""', full), 'NaN]')),
    gzip('gzip in gzip', () => zlib.gzipSync(brackets())),
    encoded('deflate', (body) => zlib.deflateSync(body)),
    encoded('br', (body) => zlib.brotliCompressSync(body, fastBrotli)),
    encoded('zstd', (body) => zlib.zstdCompressSync(body)),
    // The same names in each event are what a window of zstd remembers.
    {
      name: 'names, zstd',
      path: '/batch/',
      build: () => zlib.zstdCompressSync(batchOf(150, event(`{${named(50_000)}}`))),
      headers: { 'content-encoding': 'zstd' }
    },
    gzip('base64', () => Buffer.from(brackets(full * 0.7).toString('base64'))),
    gzip('a form with base64', () => Buffer.from(`data=${encodeURIComponent(brackets(full * 0.6).toString('base64'))}`)),
    gzip('a form of plus signs', () => joined('data=', repeat('+', full)), '/e/'),
    gzip('a form of fields', () => joined('data=x', repeat('&a', full))),
    { name: 'a form of fields, plain', path: '/e/', build: () => joined('data=x', repeat('&a', 19_000_000 * scale)) },
    { name: 'lz64', path: '/e/?compression=lz64', build: () => Buffer.from(LZString.compressToBase64('['.repeat(1_000_000))) },
    gzip('UTF-16', () => Buffer.from(brackets(full / 2).toString(), 'utf16le'), '/batch/',
      { 'content-type': 'application/json; charset=utf-16le' }),
    {
      name: 'parts',
      path: '/i/v0/ai',
      build: () => partsOf(['event', '{"event":"$ai_generation","distinct_id":"d"}'], ['event.properties.a', zlib.gzipSync(brackets(8_000_000))]),
      headers: inParts
    },
    gzip('a part of an event', () => partsOf(['event', joined('{"event":"e","a":', brackets(full * 0.9), '}')]), '/i/v0/ai', inParts),
    gzip('messages of Segment', () => batch('{}', repeat(',{}', full)), '/v1/batch', basic),
    gzip('a message of Segment', () => joined('{"event":"e","userId":"u","properties":', brackets(), '}'), '/v1/track', basic),
    gzip('Capture V1', () => batch('{"uuid":"0190f3d1-0000-7000-8000-000000000001","properties":', brackets(), '}'), '/i/v1/analytics/events', bearer),
    // Nothing of these is beyond a limit.
    gzip('as many values as a body may have', () => batchOf(9, event('{"a":[1', repeat(',1', 400_000), ']}'))),
    gzip('as many changes of a person as an event may have', () => event(`{"$set":{${named(Math.floor(249_000 * scale))}}}`), '/e/'),
    gzip('as many groups as an event may have', () => event(`{"$groups":{${named(Math.floor(249_000 * scale), '"g"')}}}`), '/e/'),
    gzip('as many events as a body may have', () => batchOf(500_000, '{"event":"e","distinct_id":"d"}'))
  ]
}

function repeat (text: string, bytes: number): Buffer {
  return Buffer.alloc(Math.floor(bytes / text.length) * text.length, text)
}

function named (values: number, value = '1'): string {
  return Array.from({ length: values }, (_, at) => `"n${at.toString(36)}":${value}`).join(',')
}

function joined (...parts: (Buffer | string)[]): Buffer {
  return Buffer.concat(parts.map((part) => Buffer.from(part)))
}

function partsOf (...parts: [name: string, content: Buffer | string][]): Buffer {
  const each = parts.map(([name, content]) =>
    joined(`--b\r\ncontent-disposition: form-data; name="${name}"\r\ncontent-type: application/json\r\n\r\n`, content, '\r\n'))
  return joined(...each, '--b--\r\n')
}
