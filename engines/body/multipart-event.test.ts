import { gzipSync } from 'node:zlib'
import t from 'tap'
import { decodeBody } from './decode-body.ts'
import { MAX_BINARY_PART_BYTES, MAX_PART_BYTES, multipartBoundary } from './multipart-event.ts'

type Parts = [name: string, content: string | Buffer, type?: string][]

const BOUNDARY = '----made-up-boundary'
const TYPE = `multipart/form-data; boundary=${BOUNDARY}`

function form (parts: Parts): Buffer {
  return Buffer.concat([
    ...parts.flatMap(([name, content, type]) => [
      Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n${type === undefined ? '' : `Content-Type: ${type}\r\n`}\r\n`),
      Buffer.from(content as string), Buffer.from('\r\n')
    ]),
    Buffer.from(`--${BOUNDARY}--\r\n`)
  ])
}

function read (parts: Parts | Buffer, contentType = TYPE, maxBytes = 20_000_000): any {
  return decodeBody(Buffer.isBuffer(parts) ? parts : form(parts), { contentType }, maxBytes)
}

const EVENT: Parts[number] = ['event', '{"event":"$ai_generation","distinct_id":"ann","uuid":"u"}', 'application/json']

t.test('parts of JSON and text become properties, whatever a line in them looks like', async (t) => {
  const text = `hello\r\n--${BOUNDARY.slice(0, -1)}\r\n\r\n✓`
  const read_ = read([
    EVENT,
    ['event.properties', '{"$ai_model":"m","big":12345678901234567890123}', 'application/json'],
    ['event.properties.$ai_input', '[{"role":"user"}]', 'application/json; charset=utf-8'],
    ['event.properties.$ai_output_choices', text, 'text/plain'],
    ['event.properties.__proto__', '{"a":1}', 'application/json'],
    ['event.properties.empty', '', 'text/plain'],
    ['something else', 'x']
  ])

  t.same(JSON.parse(JSON.stringify(read_)), JSON.parse(`{
    "event": "$ai_generation", "distinct_id": "ann", "uuid": "u", "left_out": [], "not_utf8": [],
    "properties": {
      "$ai_model": "m", "big": "12345678901234567890123", "$ai_input": [{ "role": "user" }], "$ai_output_choices": ${JSON.stringify(text)},
      "__proto__": { "a": 1 }, "empty": ""
    }
  }`))
})

t.test('the form may be compressed as a whole and in its parts, and the properties may be in the event', async (t) => {
  const parts: Parts = [
    ['event', '{"event":"e","distinct_id":"ann","properties":{"$ai_model":"m"},"left_out":["a lie"]}'],
    ['event.properties.$ai_input', gzipSync('"hello"'), 'application/json']
  ]
  const expected = { event: 'e', distinct_id: 'ann', properties: { $ai_model: 'm', $ai_input: 'hello' }, left_out: [], not_utf8: [] }

  t.same(read(parts), expected)
  t.same(read(gzipSync(form(parts))), expected)
  t.same(read(parts, `Multipart/Form-Data; charset=utf-8; boundary="${BOUNDARY}"`), expected)
})

t.test('a part is in the charset that its type names, or in UTF-8; parts that are not are listed', async (t) => {
  const jose = Buffer.from('"jos\xe9"', 'latin1')
  const { properties, not_utf8: notUtf8 } = read([
    EVENT,
    ['event.properties.latin', jose, 'application/json; charset=ISO-8859-1'],
    ['event.properties.text', Buffer.from('jos\xe9', 'latin1'), 'text/plain; charset="latin1"'],
    ['event.properties.mistaken', '"josé"', 'application/json; charset=latin1'],
    ['event.properties.unknown', jose, 'application/json'],
    ['event.properties.picture', Buffer.from('\xff', 'latin1'), 'image/png']
  ])

  t.same(properties, { latin: 'josé', text: 'josé', mistaken: 'josé', unknown: 'jos\ufffd', picture: 'data:image/png;base64,/w==' })
  t.same(notUtf8, ['event.properties.unknown'])
})

t.test('large parts are left out and listed; small binary parts are stored as text', async (t) => {
  const { properties, left_out: leftOut } = read([
    EVENT,
    ['event.properties.picture', Buffer.from([0, 255, 13, 10]), 'image/png'],
    ['event.properties.sound', Buffer.alloc(MAX_BINARY_PART_BYTES + 1), 'audio/wav'],
    ['event.properties.large', JSON.stringify('x'.repeat(MAX_PART_BYTES - 100)), 'application/json'],
    ['event.properties.larger', 'y'.repeat(200), 'text/plain'],
    ['event.properties.fits', 'z', 'text/plain']
  ])

  t.same(Object.keys(properties), ['picture', 'large', 'fits'])
  t.equal(properties.picture, 'data:image/png;base64,AP8NCg==')
  t.same(leftOut, [`sound: audio/wav, ${MAX_BINARY_PART_BYTES + 1} bytes`, 'larger: text/plain, 200 bytes'])
})

const bad: [string, Parts | Buffer, number, string][] = [
  ['no event', [['event.properties', '{}']], 400, 'invalid_multipart'],
  ['an event that is no object', [['event', '[]']], 400, 'invalid_multipart'],
  ['properties that are no object', [EVENT, ['event.properties', '5']], 400, 'invalid_multipart'],
  ['properties that are a long number', [EVENT, ['event.properties', '9'.repeat(20)]], 400, 'invalid_multipart'],
  ['an event that is no JSON', [['event', '{']], 400, 'invalid_json'],
  ['a property that is no JSON', [EVENT, ['event.properties.a', '{', 'application/json']], 400, 'invalid_json'],
  ['a property twice', [EVENT, ['event.properties.a', '1'], ['event.properties.a', '2']], 400, 'invalid_multipart'],
  ['parts without end', [EVENT, ...Array.from({ length: 200 }, (_, i): Parts[number] => [`event.properties.${i}`, ''])], 400, 'invalid_multipart'],
  ['another boundary', Buffer.from('--other\r\n\r\n--other--'), 400, 'invalid_multipart'],
  ['a form cut off', form([EVENT]).subarray(0, -20), 400, 'invalid_multipart'],
  ['a part without a name', Buffer.from(`--${BOUNDARY}\r\nContent-Type: text/plain\r\n\r\nx\r\n--${BOUNDARY}--`), 400, 'invalid_multipart'],
  ['bombs in parts', [EVENT, ...[1, 2, 3].map((i): Parts[number] => [`event.properties.${i}`, gzipSync(Buffer.alloc(9_000_000))])], 413, 'body_too_large']
]

for (const [name, parts, status, code] of bad) {
  t.test(`refuses ${name} with ${status} ${code}`, async (t) => {
    t.throws(() => read(parts), { status, code, type: 'validation_error' })
  })
}

t.test('what the header says is only a hint: JSON under the type of a form is read as JSON', async (t) => {
  t.same(decodeBody(Buffer.from('{"event":"e"}'), { contentType: TYPE }, 1000), { event: 'e' })
  t.equal(multipartBoundary('multipart/form-data'), undefined)
  t.equal(multipartBoundary('application/json'), undefined)
})
