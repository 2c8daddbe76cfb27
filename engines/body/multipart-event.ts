import type { TextDecoder } from 'node:util'
import { isUtf8 } from 'node:buffer'
import { isFields } from '../fields.ts'
import { decoderOf, isInCharset } from './charset.ts'
import { parseJson, hasLongNumber, isExactNumber, roundFields } from './parse-json.ts'
import { stringifyJson } from './stringify-json.ts'
import { bodyError } from './read-body.ts'
import { countValues } from './split-json-array.ts'
import { inflateGzip, isGzip } from './decompress.ts'

/** Bytes of the properties that come as parts of JSON or text, together; what does not fit is left out. */
export const MAX_PART_BYTES = 8_388_608

/** Bytes of a part of any other type. It is stored as base64, which no query reads: pictures do not belong there. */
export const MAX_BINARY_PART_BYTES = 65_536

/** An event has a dozen parts; each costs more than its bytes. */
const MAX_PARTS = 100

const PROPERTIES = 'event.properties'

/** The boundary of a body of type `multipart/form-data`; undefined for any other type. */
export function multipartBoundary (contentType: string | undefined): string | undefined {
  const [, quoted, plain] = /^\s*multipart\/form-data\s*;.*?\bboundary=(?:"([^"]{1,200})"|([^\s;]{1,200}))/i.exec(contentType ?? '') ?? []
  return quoted ?? plain
}

/**
 * An event of a language model whose properties come as parts (docs/reference/contract/sdks.md 1.10), as JSON: `event`
 * has the fields of the event, `event.properties` the properties, `event.properties.<name>` one large property each.
 *
 * - JSON and text become the value of their property, other types a `data:` URL. `not_utf8` of the event lists the
 *   parts of which bytes became U+FFFD, as they are in another charset than they say.
 * - Parts that are too large are left out; `left_out` of the event lists it, `<name>: <type>, <bytes> bytes` each.
 *
 * @param limits  Of all parts together; bytes after decompression.
 * @throws {HttpError} 400 `invalid_multipart`, `invalid_json`, `invalid_gzip`; 413 `body_too_large`.
 */
export function readMultipartEvent (
  body: Buffer, boundary: string, { maxBytes, maxValues }: { maxBytes: number, maxValues: number }
): Buffer {
  const parts = readParts(body, boundary)
  const reading: Reading = { notUtf8: [], maxValues }
  const event = readObject(parts, 'event', reading)
  if (event === undefined) throw invalid('The form has no part event.')
  roundFields(event)
  const { properties: ownProperties = {}, ...fields } = event
  const properties = readObject(parts, PROPERTIES, reading) ?? ownProperties
  const leftOut: string[] = []
  let room = MAX_PART_BYTES
  let mayInflate = maxBytes
  const large = [...parts].flatMap(([partName, part]): [string, unknown][] => {
    if (!partName.startsWith(`${PROPERTIES}.`)) return []
    const name = partName.slice(PROPERTIES.length + 1)
    const bytes = isGzip(part.bytes) ? inflateGzip(part.bytes, mayInflate) : part.bytes
    mayInflate = Math.max(mayInflate - bytes.length, 1)
    const isReadable = isJson(part.type) || part.type.startsWith('text/')
    if (bytes.length > (isReadable ? room : MAX_BINARY_PART_BYTES)) {
      leftOut.push(`${name}: ${part.type}, ${bytes.length} bytes`)
      return []
    }
    if (isReadable) room -= bytes.length
    return [[name, isReadable ? readText(partName, { ...part, bytes }, reading) : `data:${part.type};base64,${bytes.toString('base64')}`]]
  })
  // An array or a text in the place of properties is for the validation of events to refuse.
  const isObject = typeof properties === 'object' && properties !== null && !Array.isArray(properties)
  const all = isObject ? { ...properties, ...Object.fromEntries(large) } : properties
  return Buffer.from(stringifyJson({ ...fields, properties: all, left_out: leftOut, not_utf8: reading.notUtf8 }))
}

/** What goes on from part to part. */
interface Reading {
  /** Parts of which bytes became U+FFFD. */
  notUtf8: string[]
  /** That the parts to come may have. */
  maxValues: number
}

interface Part {
  /** In lower case, without parameters; `text/plain` by default. */
  type: string
  decoder: TextDecoder | undefined
  bytes: Buffer
}

const BLANK_LINE = Buffer.from('\r\n\r\n')

function readParts (body: Buffer, boundary: string): Map<string, Part> {
  const parts = new Map<string, Part>()
  const first = Buffer.from(`--${boundary}`)
  // Every delimiter but the first begins with a line break, which is not the part's.
  const delimiter = Buffer.from(`\r\n--${boundary}`)
  let at = body.indexOf(first)
  if (at === -1) throw invalid('The body does not have the boundary of its form.')
  at += first.length
  while (body.toString('latin1', at, at + 2) !== '--') {
    const headEnd = body.indexOf(BLANK_LINE, at)
    const end = headEnd === -1 ? -1 : body.indexOf(delimiter, headEnd + 2)
    if (end === -1) throw invalid('The form is not complete.')
    const head = body.toString('utf8', at, headEnd)
    const name = readName(head)
    if (parts.has(name)) throw invalid(`The form has two parts ${name}.`)
    if (parts.size === MAX_PARTS) throw invalid(`The form has more than ${MAX_PARTS} parts.`)
    parts.set(name, { ...readType(head), bytes: body.subarray(Math.min(headEnd + BLANK_LINE.length, end), end) })
    at = end + delimiter.length
  }
  return parts
}

function readName (head: string): string {
  const [, disposition = ''] = /^content-disposition:(.*)$/im.exec(head) ?? []
  const [, quoted, plain] = /;\s*name=(?:"([^"]*)"|([^\s;]+))/i.exec(disposition) ?? []
  const name = quoted ?? plain ?? ''
  if (name === '') throw invalid('A part of the form has no name.')
  return name
}

function readType (head: string): Pick<Part, 'type' | 'decoder'> {
  const [, type = 'text/plain', parameters = ''] = /^content-type:\s*([^\s;]+)(.*)/im.exec(head) ?? []
  return { type: type.toLowerCase(), decoder: decoderOf(`${type}${parameters}`) }
}

function readObject (parts: Map<string, Part>, name: string, reading: Reading): Record<string, unknown> | undefined {
  const part = parts.get(name)
  if (part === undefined) return undefined
  const value = readText(name, { ...part, type: 'application/json' }, reading)
  if (!isFields(value) || isExactNumber(value)) throw invalid(`The part ${name} must be a JSON object.`)
  return value
}

/** The value of a part of JSON or text. */
function readText (name: string, { type, decoder, bytes }: Part, reading: Reading): unknown {
  const isKnown = isInCharset(bytes, decoder)
  const text = isKnown ? decoder.decode(bytes) : bytes.toString()
  if (!isKnown && !isUtf8(bytes)) reading.notUtf8.push(name)
  if (!isJson(type)) return text
  reading.maxValues -= countValues(isKnown ? Buffer.from(text) : bytes, reading.maxValues)
  return parseJson(text, hasLongNumber(bytes))
}

function isJson (type: string): boolean {
  return type === 'application/json' || type.endsWith('+json')
}

function invalid (detail: string): Error {
  return bodyError('invalid_multipart', detail)
}
