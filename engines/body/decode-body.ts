import { isUtf8 } from 'node:buffer'
import { HttpError } from '../errors.ts'
import { mayHoldUnstorableText, REPLACEMENT, toStorableJson } from './storable-text.ts'
import { decoderOf, isInCharset } from './charset.ts'
import { hasLongNumber, parseJson, roundFields } from './parse-json.ts'
import { multipartBoundary, readMultipartEvent } from './multipart-event.ts'
import { bodyError, tooManyValues } from './read-body.ts'
import { hasMoreValues } from './split-json-array.ts'
import { MAX_EVENT_VALUES, MAX_SMALL_VALUES } from './value-limits.ts'
import { type ContentEncoding, inflateEncoded, inflateGzip, inflateLz64, isGzip } from './decompress.ts'

/** What the request says about its body. These are only hints: the bytes decide. */
export interface BodyHints {
  contentType?: string | undefined
  contentEncoding?: string | undefined
  /** Query parameter `compression`. */
  compression?: string | undefined
}

/**
 * Turns the raw bytes of a body into the JSON value it carries, however the SDK wrapped it.
 *
 * Runs on the event loop and blocks it about 3 ms a megabyte: give it small bodies only.
 *
 * Whole numbers that a double cannot hold become an `ExactNumber`.
 *
 * @param maxBytes  Largest body after decompression.
 * @param asStored  Convert all strings and names to their stored form (`toStorableText`), for callers that compare
 *   them with stored ones.
 * @throws {HttpError} 400 with a code that says what was wrong, 413 `body_too_large`.
 */
export function decodeBody (bytes: Buffer, hints: BodyHints, maxBytes: number, asStored = false): unknown {
  const json = unwrapBody(bytes, hints, maxBytes, MAX_SMALL_VALUES)
  if (hasMoreValues(json, MAX_SMALL_VALUES)) throw tooManyValues(MAX_SMALL_VALUES)
  const { value } = parseBody(json)
  return asStored && mayHoldUnstorableText(json) ? toStorableJson(value) : value
}

/** What `unwrapBody` has left, parsed. */
export interface ParsedBody {
  value: unknown
  /** Bytes that are not UTF-8 became U+FFFD. */
  isTextReplaced: boolean
}

/** @throws {HttpError} 400 `invalid_json`. */
export function parseBody (json: Buffer): ParsedBody {
  const text = json.toString()
  const keepsDigits = hasLongNumber(json)
  const value = parseJson(text, keepsDigits)
  if (keepsDigits) roundFields(value)
  // Costs nothing where the text is ASCII.
  return { value, isTextReplaced: text.includes(REPLACEMENT) && !isUtf8(json) }
}

/** SDKs nest at most three (form, base64, gzip); a body that goes on is an attack. */
const MAX_LAYERS = 5

/**
 * Takes one wrapping after the other off a body until JSON is left: gzip, another content encoding, a form in parts, a
 * form with `data=`, lz64, base64. SDKs combine them, and name them wrongly or not at all, so each layer is recognised
 * by its bytes where it can be; hints decide the rest.
 *
 * @param maxBytes   Largest body after decompression.
 * @param maxValues  Of the parts of a form, which are parsed here.
 * @returns UTF-8 bytes that begin like a JSON object or array, without a byte order mark; not parsed yet. They are not
 *   valid UTF-8 when the body is in another charset than it says.
 * @throws {HttpError} 400 with a code that says what was wrong, 413 `body_too_large`.
 */
export function unwrapBody (bytes: Buffer, hints: BodyHints, maxBytes: number, maxValues = MAX_EVENT_VALUES): Buffer {
  let compression = (hints.compression ?? hints.contentEncoding ?? '').toLowerCase()
  let encoding = encodingOf(hints.contentEncoding)
  let isForm = /^\s*application\/x-www-form-urlencoded/i.test(hints.contentType ?? '')
  let boundary = multipartBoundary(hints.contentType)
  let encodingError: unknown
  let decoder = boundary === undefined ? decoderOf(hints.contentType) : undefined
  for (let layer = 0; layer < MAX_LAYERS; layer++) {
    if (bytes.length === 0) throw bodyError('empty_body', 'The body is empty.')
    if (isGzip(bytes)) {
      bytes = inflateGzip(bytes, maxBytes)
      if (compression.startsWith('gzip')) compression = ''
    } else if (encoding !== undefined) {
      try {
        if (!isStale(bytes, encoding)) bytes = inflateEncoded(bytes, encoding, maxBytes)
      } catch (error) {
        if (!(error instanceof HttpError) || error.status !== 400) throw error
        encodingError = error
      }
      encoding = undefined
    } else if (isInCharset(bytes, decoder)) {
      bytes = Buffer.from(decoder.decode(bytes))
      decoder = undefined
    } else if (beginsLikeJson(bytes)) {
      return bytes.subarray(markLength(bytes))
    } else if (boundary !== undefined) {
      bytes = readMultipartEvent(bytes, boundary, { maxBytes, maxValues })
      boundary = undefined
    } else if (isForm || FORM_FIELD.test(bytes.toString('latin1', 0, 128))) {
      const form = readForm(bytes)
      bytes = form.data
      compression = form.compression ?? compression
      isForm = false
    } else if (compression === 'lz64' || compression === 'lz-string') {
      bytes = Buffer.from(inflateLz64(bytes.toString('latin1').trimEnd(), maxBytes))
      compression = ''
    } else if (isJsonScalar(bytes)) {
      throw bodyError('invalid_body', 'The body must be a JSON object or array, not a single value.')
    } else {
      const text = bytes.toString('latin1')
      if (!BASE64.test(text)) break
      bytes = Buffer.from(text, 'base64')
    }
  }
  throw encodingError ?? unrecognised(compression)
}

/**
 * Whether a proxy took the encoding off and left its header: what begins like JSON has none. Brotli may begin with a
 * bracket or a blank, but with a brace it is empty, whatever follows.
 */
function isStale (bytes: Buffer, encoding: ContentEncoding): boolean {
  return encoding === 'br' ? bytes[0] === OPEN_OBJECT : beginsLikeJson(bytes)
}

function encodingOf (header: string | undefined): ContentEncoding | undefined {
  const name = header?.trim().toLowerCase()
  return name === 'deflate' || name === 'br' || name === 'zstd' ? name : undefined
}

const OPEN_OBJECT = 0x7b
const OPEN_ARRAY = 0x5b

/** Bytes of the byte order mark that some clients begin with. */
function markLength (bytes: Buffer): number {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
}

/** A brace or bracket after blanks and an optional byte order mark. */
function beginsLikeJson (bytes: Buffer): boolean {
  let at = markLength(bytes)
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++
  return bytes[at] === OPEN_OBJECT || bytes[at] === OPEN_ARRAY
}

/** A text, number, `true`, `false` or `null`: JSON, but nothing that can carry an event. Some would pass for base64. */
function isJsonScalar (bytes: Buffer): boolean {
  // Anything else is not worth a string of megabytes.
  if (!/^\s*["\dtfn-]/.test(bytes.toString('latin1', 0, 64))) return false
  try {
    JSON.parse(bytes.toString())
    return true
  } catch {
    return false
  }
}

const FORM_FIELD = /(?:^|&)(?:data|_|ip|compression)=/

/** SDKs send six. */
const MAX_FORM_FIELDS = 100

function readForm (bytes: Buffer): { data: Buffer, compression: string | undefined } {
  const fields = new Map<string, Buffer>()
  for (let at = 0, count = 0; at <= bytes.length; count++) {
    if (count > MAX_FORM_FIELDS) throw bodyError('invalid_form', `The form has more than ${MAX_FORM_FIELDS} fields.`)
    const end = bytes.indexOf('&', at)
    const field = bytes.subarray(at, end === -1 ? bytes.length : end)
    const nameEnd = field.indexOf('=')
    const name = nameEnd === -1 ? '' : field.toString('latin1', 0, nameEnd)
    const isRead = name === 'data' || name === 'compression'
    if (isRead && !fields.has(name)) fields.set(name, unescapeField(field.subarray(nameEnd + 1)))
    at += field.length + 1
  }
  const data = fields.get('data')
  if (data === undefined || data.length === 0) throw bodyError('invalid_form', 'The form has no field data.')
  return { data, compression: fields.get('compression')?.toString('latin1', 0, 32).toLowerCase() }
}

/** Bytes that tell JSON, in which a plus sign is a blank, from base64, whose plus signs some clients do not escape. */
const FORM_HEAD = 1024

/**
 * The bytes of a field, whatever charset they are in. `URLSearchParams` takes about 30 bytes of heap for each `+`:
 * 19 MB of them exceed the heap of the thread, which ends the process.
 */
function unescapeField (field: Buffer): Buffer {
  const head = unescapeBytes(replaceBytes(Buffer.from(field.subarray(0, FORM_HEAD)), PLUS, BLANK))
  const isBlank = head.toString('latin1').trim() === ''
  if (isBlank && field.length > FORM_HEAD) throw bodyError('invalid_form', `The first ${FORM_HEAD} bytes of the form's field data are blank.`)
  const value = Buffer.from(field)
  return isBlank || beginsLikeJson(head)
    ? unescapeBytes(replaceBytes(value, PLUS, BLANK))
    : replaceBytes(unescapeBytes(value), BLANK, PLUS)
}

const [PLUS, BLANK] = [0x2b, 0x20]

/** In place. */
function replaceBytes (value: Buffer, from: number, to: number): Buffer {
  if (!value.includes(from)) return value
  for (let at = 0; at < value.length; at++) if (value[at] === from) value[at] = to
  return value
}

/** In place: `%41` is a byte. */
function unescapeBytes (value: Buffer): Buffer {
  const first = value.indexOf(0x25)
  if (first === -1) return value
  let length = first
  for (let at = first; at < value.length; at++) {
    const escaped = value[at] === 0x25 ? 16 * (HEX[value[at + 1] ?? 0] ?? 0) + (HEX[value[at + 2] ?? 0] ?? 0) : -1
    value[length++] = escaped < 0 ? value[at] ?? 0 : escaped
    if (escaped >= 0) at += 2
  }
  return value.subarray(0, length)
}

/** Of hexadecimal digits; of other bytes so little that no byte comes of it. */
const HEX = new Int16Array(256).fill(-256)
for (const digit of '0123456789abcdefABCDEF') HEX[digit.charCodeAt(0)] = parseInt(digit, 16)

/** One character alone carries six bits, which are no byte. */
const BASE64 = /^[A-Za-z0-9+/_-]{2,}={0,2}\s*$/

/** Nothing fits: the error names what the request claimed to be. */
function unrecognised (compression: string): Error {
  switch (compression) {
    case 'gzip': case 'gzip-js': return bodyError('invalid_gzip', 'The body is not valid gzip.')
    case 'base64': case 'b64': return bodyError('invalid_base64', 'The body is not valid base64.')
    default: return bodyError('invalid_json', 'The body is not valid JSON.')
  }
}
