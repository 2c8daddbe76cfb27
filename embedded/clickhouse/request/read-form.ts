/** Query and parameters in a body of type `multipart/form-data`, as clients send them that are too long for a URL. */
import type { IncomingMessage } from 'node:http'
import { QueryError } from '../query-errors.ts'
import { decodeBody } from './read-query-body.ts'

/** As a server's `http_max_multipart_form_data_size`, but held in memory. */
const MAX_FORM_BYTES = 16_777_216

const BLANK_LINE = Buffer.from('\r\n\r\n')

/** The boundary of a form; undefined when the body is none. */
export function formBoundary (request: IncomingMessage): string | undefined {
  const type = request.headers['content-type'] ?? ''
  if (!/^multipart\/form-data\b/i.test(type)) return undefined
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(type) ?? []
  return quoted ?? plain ?? ''
}

/**
 * Reads a form to its end and adds its fields to the parameters of the URL, as a server does.
 *
 * @throws {QueryError} 36 for a body that is no form, 229 for one too long, 344 for files: external tables.
 */
export async function readForm (request: IncomingMessage, boundary: string, query: URLSearchParams): Promise<void> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of decodeBody(request) as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_FORM_BYTES) throw new QueryError(229, `Form is too large: more than ${MAX_FORM_BYTES} bytes`)
    chunks.push(chunk)
  }
  for (const [name, value] of parseForm(Buffer.concat(chunks), boundary)) query.append(name, value)
}

/** Fields of a form, in order. */
export function parseForm (body: Buffer, boundary: string): Array<[string, string]> {
  const fields: Array<[string, string]> = []
  // Every delimiter but the first begins with a line break, which is none of the field's.
  const delimiter = Buffer.from(`\r\n--${boundary}`)
  const text = Buffer.concat([Buffer.from('\r\n'), body])
  let at = boundary === '' ? -1 : text.indexOf(delimiter)
  if (at === -1) throw new QueryError(36, 'The body is no form: its boundary is missing')
  for (;;) {
    at += delimiter.length
    if (text.toString('latin1', at, at + 2) === '--') return fields
    const headEnd = text.indexOf(BLANK_LINE, at)
    const next = text.indexOf(delimiter, headEnd)
    if (headEnd === -1 || next === -1) throw new QueryError(36, 'The form is not complete')
    const name = readName(text.toString('utf8', at, headEnd))
    fields.push([name, text.toString('utf8', headEnd + BLANK_LINE.length, next)])
    at = next
  }
}

function readName (head: string): string {
  const disposition = /^content-disposition:(.*)$/im.exec(head)?.[1] ?? ''
  if (/;\s*filename\*?=/i.test(disposition)) throw new QueryError(344, 'Files in a form (external tables) are not supported')
  const [, quoted, plain] = /;\s*name=(?:"([^"]*)"|([^\s;]+))/i.exec(disposition) ?? []
  const name = quoted ?? plain ?? ''
  if (name === '') throw new QueryError(36, 'A field of the form has no name')
  return name
}
