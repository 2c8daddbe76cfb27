import zlib from 'node:zlib'
import LZString from 'lz-string'
import t from 'tap'
import { type BodyHints, decodeBody } from './decode-body.ts'

const VALUE = { event: 'order paid', distinct_id: 'ünïcødé 日本 😀', properties: { a: [1, 2.5, null, true], text: 'a+b/c=d & e' } }
const JSON_TEXT = JSON.stringify(VALUE)
const gzipped = zlib.gzipSync(JSON_TEXT)
const base64 = Buffer.from(JSON_TEXT).toString('base64')
const form = (fields: Record<string, string>): string => new URLSearchParams(fields).toString()
const FORM: BodyHints = { contentType: 'application/x-www-form-urlencoded' }

const forms: [string, string | Buffer, BodyHints][] = [
  ['plain JSON', JSON_TEXT, {}],
  ['with a byte order mark and blanks', `\ufeff \n\t${JSON_TEXT}\r\n`, {}],
  ['gzip by header', gzipped, { contentEncoding: 'gzip' }],
  ['gzip by query', gzipped, { compression: 'gzip-js' }],
  ['gzip by its magic bytes', gzipped, { contentType: 'text/plain' }],
  ['gzip that a proxy took off, header left', JSON_TEXT, { contentEncoding: 'gzip' }],
  ['gzip of two members', Buffer.concat([zlib.gzipSync(JSON_TEXT.slice(0, 20)), zlib.gzipSync(JSON_TEXT.slice(20))]), {}],
  ['deflate', zlib.deflateSync(JSON_TEXT), { contentEncoding: 'deflate' }],
  ['raw deflate', zlib.deflateRawSync(JSON_TEXT), { contentEncoding: 'deflate' }],
  ['brotli', zlib.brotliCompressSync(JSON_TEXT), { contentEncoding: 'br' }],
  ['zstd', zlib.zstdCompressSync(JSON_TEXT), { contentEncoding: 'zstd' }],
  ['base64', base64, {}],
  ['base64 by query', base64, { compression: 'base64' }],
  ['url-safe base64 without padding', base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''), {}],
  ['base64 of gzip', gzipped.toString('base64'), {}],
  ['gzip of base64', zlib.gzipSync(base64), {}],
  ['form with JSON', form({ data: JSON_TEXT }), FORM],
  ['form without content type', form({ data: JSON_TEXT, ip: '1' }), {}],
  ['form whose type is in capitals', form({ project: '1', data: JSON_TEXT }), { contentType: 'Application/X-WWW-Form-URLEncoded; Charset=UTF-8' }],
  ['form with base64', form({ data: base64, compression: 'base64' }), FORM],
  ['form with base64 whose plus signs were not escaped', `data=${base64}`, FORM],
  ['form with base64 of gzip', form({ data: gzipped.toString('base64'), compression: 'gzip-js' }), FORM],
  ['gzipped form', zlib.gzipSync(form({ data: JSON_TEXT })), FORM],
  ['lz64 by query', LZString.compressToBase64(JSON_TEXT), { compression: 'lz64' }],
  ['lz64 in a form', form({ data: LZString.compressToBase64(JSON_TEXT), compression: 'lz64' }), FORM]
]

for (const [name, body, hints] of forms) {
  t.test(`reads ${name}`, async (t) => {
    t.same(decodeBody(Buffer.from(body), hints, 1_000_000), VALUE)
  })
}

t.test('NaN and Infinity count as null, but not inside strings', async (t) => {
  const body = Buffer.from('{"a": NaN, "b": -Infinity, "c": [Infinity, "NaN \\" Infinity"]}')

  t.same(decodeBody(body, {}, 1000), { a: null, b: null, c: [null, 'NaN " Infinity'] })
})

t.test('bytes that are not UTF-8 become U+FFFD', async (t) => {
  t.same(decodeBody(Buffer.from('{"a":"\xff\xfe"}', 'latin1'), {}, 1000), { a: '\ufffd\ufffd' })
})

const bad: [string, string | Buffer, BodyHints, number, string][] = [
  ['nothing', '', {}, 400, 'empty_body'],
  ['gzip of nothing', zlib.gzipSync(''), {}, 400, 'empty_body'],
  ['broken JSON', '{"a":', {}, 400, 'invalid_json'],
  ...['5', ' -1.5e3\n', '"x"', '"{}"', 'null', 'true', 'false', '12345678'].map((text): typeof bad[number] => [text, text, {}, 400, 'invalid_body']),
  ['a number in gzip', zlib.gzipSync('5'), {}, 400, 'invalid_body'],
  ['a number in a form', 'data=5', FORM, 400, 'invalid_body'],
  ['half a text', '"x', {}, 400, 'invalid_json'],
  ['a letter', 'a', {}, 400, 'invalid_json'],
  ['a word', 'hello!', {}, 400, 'invalid_json'],
  ['gzip cut off', gzipped.subarray(0, 20), {}, 400, 'invalid_gzip'],
  ['gzip with a wrong checksum', Buffer.concat([gzipped.subarray(0, -8), Buffer.alloc(8)]), {}, 400, 'invalid_gzip'],
  ['no gzip although it says so', 'hello!', { compression: 'gzip' }, 400, 'invalid_gzip'],
  ['no base64 although it says so', '%%%%', { compression: 'base64' }, 400, 'invalid_base64'],
  ['base64 of no JSON', Buffer.from('hello').toString('base64'), {}, 400, 'invalid_json'],
  ['no lz64 although it says so', '!!!!', { compression: 'lz64' }, 400, 'invalid_lz64'],
  ['lz64 cut off', LZString.compressToBase64(JSON_TEXT).slice(0, 40), { compression: 'lz64' }, 400, 'invalid_lz64'],
  ['a form without data', 'ip=1&_=2', {}, 400, 'invalid_form'],
  ['brotli that is none', 'hello!', { contentEncoding: 'br' }, 400, 'invalid_encoding'],
  ['layers without end', wrap(8), {}, 400, 'invalid_json'],
  ['a gzip bomb', zlib.gzipSync(Buffer.alloc(50_000_000)), {}, 413, 'body_too_large'],
  ['a zstd bomb', zlib.zstdCompressSync(Buffer.alloc(50_000_000)), { contentEncoding: 'zstd' }, 413, 'body_too_large'],
  ['an lz64 bomb', LZString.compressToBase64('x'.repeat(3_000_000)), { compression: 'lz64' }, 413, 'body_too_large']
]

for (const [name, body, hints, status, code] of bad) {
  t.test(`refuses ${name} with ${status} ${code}`, async (t) => {
    const startedAt = performance.now()

    t.throws(() => decodeBody(Buffer.from(body), hints, 1_000_000), { status, code, type: 'validation_error' })

    t.ok(performance.now() - startedAt < 2000)
  })
}

t.test('inflates lz64 exactly as its own library does', async (t) => {
  const texts = ['', 'a', 'aaaa', 'ab'.repeat(5000), '\u0000\uffff\ud800x', '日本語'.repeat(300),
    Array.from({ length: 5000 }, (_, i) => String.fromCharCode((i * 7919) % 65536)).join('')]
  for (const text of texts) {
    const json = JSON.stringify([text])
    t.same(decodeBody(Buffer.from(LZString.compressToBase64(json)), { compression: 'lz64' }, 1e6), [text])
  }
})

function wrap (layers: number): Buffer {
  let bytes = Buffer.from(JSON_TEXT)
  for (let i = 0; i < layers; i++) bytes = zlib.gzipSync(bytes)
  return bytes
}
