import zlib from 'node:zlib'
import fc from 'fast-check'
import LZString from 'lz-string'
import t from 'tap'
import { LINEAR_GROWTH, measureGrowth } from '../../test/support/cpu-time.ts'
import { type BodyHints, decodeBody, parseBody, unwrapBody } from './decode-body.ts'
import { HAS_SAFE_BROTLI } from './decompress.ts'
import { normaliseContentType } from './read-body.ts'

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
  ['form with many blanks before JSON', `data=${'+'.repeat(500)}${encodeURIComponent(JSON_TEXT)}`, FORM],
  ['form with blanks and a byte order mark', form({ data: `\ufeff${JSON.stringify(VALUE, null, 1)}` }), FORM],
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

for (const contentEncoding of ['br', 'zstd', 'deflate']) {
  t.test(`reads a body whose ${contentEncoding} a proxy took off, header left`, async (t) => {
    const pretty = JSON.stringify(VALUE, null, 2)
    for (const body of [JSON_TEXT, ` \n${pretty}`, pretty, `\ufeff${JSON_TEXT}`, base64, form({ data: JSON_TEXT }), form({ data: base64 }), gzipped]) {
      t.same(decodeBody(Buffer.from(body), { contentEncoding }, 1_000_000), VALUE)
    }
    for (const body of [`[${JSON_TEXT}]`, JSON.stringify([VALUE], null, 1)]) t.same(decodeBody(Buffer.from(body), { contentEncoding }, 1e6), [VALUE])
  })
}

t.test('brotli that begins with a bracket is brotli', async (t) => {
  const list = Array.from({ length: 20_000 }, (_, i) => `${i} of many`)
  const body = zlib.brotliCompressSync(JSON.stringify(list))

  t.equal(body[0], 0x5b)
  t.same(decodeBody(body, { contentEncoding: 'br' }, 1e6), list)
})

t.test('NaN and Infinity count as null, but not inside strings', async (t) => {
  const body = Buffer.from('{"a": NaN, "b": -Infinity, "c": [Infinity, "NaN \\" Infinity"]}')

  t.same(decodeBody(body, {}, 1000), { a: null, b: null, c: [null, 'NaN " Infinity'] })
})

const LATIN = Buffer.from('{"name":"jos\xe9"}', 'latin1')
const latin = (type: string): BodyHints => ({ contentType: `${type}; charset=ISO-8859-1` })
const charsets: [string, Buffer, BodyHints][] = [
  ['latin1', LATIN, latin('application/json')],
  ['latin1 in gzip', zlib.gzipSync(LATIN), { ...latin('application/json'), contentEncoding: 'gzip' }],
  ['latin1 in base64', Buffer.from(LATIN.toString('base64')), latin('text/plain')],
  ['a form with escapes in latin1', Buffer.from('ip=1&data=%7B%22name%22%3A%22jos%E9%22%7D&_=1'), latin('application/x-www-form-urlencoded')],
  ['a form with bytes in latin1', Buffer.concat([Buffer.from('data='), LATIN]), latin('application/x-www-form-urlencoded')],
  ['a form with base64 of latin1', Buffer.from(`data=${encodeURIComponent(LATIN.toString('base64'))}`), latin('application/x-www-form-urlencoded')],
  ['windows-1252 in quotes', LATIN, { contentType: 'application/json;Charset="windows-1252"' }],
  ['UTF-16', Buffer.from('\ufeff{"name":"josé"}', 'utf16le'), { contentType: 'application/json; charset=utf-16' }],
  ['Shift_JIS', Buffer.from('{"name":"\x83\x65\x83\x58\x83\x67"}', 'latin1'), { contentType: 'application/json; charset=Shift_JIS' }],
  ['UTF-8 that says latin1', Buffer.from('{"name":"josé"}'), latin('application/json')],
  ['UTF-8 that says what nobody knows', Buffer.from('{"name":"josé"}'), { contentType: 'application/json; charset=x' }],
  ['U+FFFD that was sent', Buffer.from('{"name":"\ufffd"}'), {}],
  ['U+FFFD in a form', Buffer.from('data=%7B%22name%22%3A%22%EF%BF%BD%22%7D'), FORM]
]

for (const [name, body, hints] of charsets) {
  t.test(`reads the charset of ${name}`, async (t) => {
    const { value, isTextReplaced } = parseBody(unwrapBody(body, hints, 1000))
    t.same(value, { name: name === 'Shift_JIS' ? 'テスト' : name.startsWith('U+FFFD') ? '\ufffd' : 'josé' })
    t.equal(isTextReplaced, false)
  })
}

t.test('bytes that are not UTF-8, of a body that names no other charset or a wrong one, become U+FFFD, which is noted', async (t) => {
  const bodies: [Buffer, BodyHints][] = [
    [LATIN, {}], [zlib.gzipSync(LATIN), {}], [LATIN, { contentType: 'application/json; charset=utf-8' }],
    [LATIN, { contentType: 'application/json; charset=x' }], [LATIN, { contentType: 'application/json; charset=Shift_JIS' }],
    [Buffer.from('data=%7B%22name%22%3A%22jos%E9%22%7D&x=1'), FORM], [Buffer.from(LATIN.toString('base64')), {}]
  ]
  for (const [body, hints] of bodies) {
    t.same(parseBody(unwrapBody(body, hints, 1000)), { value: { name: 'jos\ufffd' }, isTextReplaced: true })
  }
  t.same(decodeBody(LATIN, {}, 1000), { name: 'jos\ufffd' })
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
  ['40,000 levels', '['.repeat(40_000), {}, 413, 'body_too_large'],
  ['40,000 names in gzip', zlib.gzipSync(`{"a":1${',"a":1'.repeat(40_000)}}`), {}, 413, 'body_too_large'],
  ['a form of many fields', `data=e30=${'&a'.repeat(200)}`, FORM, 400, 'invalid_form'],
  ['a form without data', 'ip=1&_=2', {}, 400, 'invalid_form'],
  ['a form of plus signs', `data=${'+'.repeat(2000)}{}`, FORM, 400, 'invalid_form'],
  ['invalid brotli', 'hello!', { contentEncoding: 'br' }, 400, 'invalid_encoding'],
  ['layers without end', wrap(8), {}, 400, 'invalid_json'],
  ['a gzip bomb', zlib.gzipSync(Buffer.alloc(5_000_000)), {}, 413, 'body_too_large'],
  ['a zstd bomb', zlib.zstdCompressSync(Buffer.alloc(5_000_000)), { contentEncoding: 'zstd' }, 413, 'body_too_large'],
  ['an lz64 bomb', LZString.compressToBase64('x'.repeat(1_100_000)), { compression: 'lz64' }, 413, 'body_too_large']
]

for (const [name, body, hints, status, code] of bad) {
  t.test(`refuses ${name} with ${status} ${code}`, async (t) => {
    t.throws(() => decodeBody(Buffer.from(body), hints, 1_000_000), { status, code, type: 'validation_error' })
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

t.test('a Brotli decoder that writes past its buffer gets no body; the Node of Linux on x64 has a safe one', async (t) => {
  if (process.platform === 'linux' && process.arch === 'x64') t.ok(HAS_SAFE_BROTLI, `Node ${process.version}: run npm install`)
  if (!HAS_SAFE_BROTLI) {
    t.throws(() => decodeBody(zlib.brotliCompressSync(JSON_TEXT), { contentEncoding: 'br' }, 1e6), { code: 'invalid_encoding' })
  }
})

function normalised (type: string): string | undefined {
  const headers = { 'content-type': type }
  normaliseContentType(headers)
  return headers['content-type'] as string | undefined
}

t.test('a header that is no media type becomes the first one in it, or what it seems to mean', async (t) => {
  for (const [sent, expected] of [
    ['application/json', 'application/json'], ['Text/Plain; charset=utf-8', 'Text/Plain; charset=utf-8'],
    ['application/json, application/json', 'application/json'], ['"text/plain"', 'text/plain'], ['a//b, c/d/e', 'c/d'],
    ['json', 'application/json'], ['utf-8', 'application/octet-stream'], ['', undefined], [' ', undefined]
  ] as const) t.equal(normalised(sent), expected, sent)
})

t.test('the first media type of any header is the one that a search from each character finds', async (t) => {
  const token = "[\\w!#$%&'*+.^`|~-]+"
  const pieces = fc.array(fc.constantFrom('a', 'b+c', '/', ',', ' ', '"', ';', 'é'), { maxLength: 12 })
  fc.assert(fc.property(pieces, (list) => {
    const sent = `,${list.join('')}`
    return normalised(sent) === (new RegExp(`${token}/${token}`).exec(sent)?.[0] ?? 'application/octet-stream')
  }), { numRuns: 1000 })
})

t.test('a header of 64 KB takes no more than its length', async (t) => {
  const growth = measureGrowth((size) => {
    t.equal(normalised('a'.repeat(size)), 'application/octet-stream')
    t.equal(normalised(`${'a'.repeat(size / 2)} ${'b'.repeat(size / 2)},`), 'application/octet-stream')
  }, 64_000)
  t.ok(growth < LINEAR_GROWTH, `${growth} times the CPU, where a search from each character takes 256 times`)
})
