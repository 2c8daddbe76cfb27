/** Query and parameters in a body of type `multipart/form-data`, as clients send them that are too long for a URL. */
import type { IncomingMessage } from 'node:http'
import { QueryError } from './query-errors.ts'
import { decodeBody } from './read-query-body.ts'

/** The type of a form's body, with its boundary; undefined when the body is none. */
export function formType (request: IncomingMessage): string | undefined {
  const type = request.headers['content-type'] ?? ''
  return /^multipart\/form-data\b/i.test(type) ? type : undefined
}

/**
 * Reads a form to its end and adds its fields to the parameters of the URL, as a server does.
 *
 * @throws {QueryError} 36 for a body that is no form, 229 for one too long, 344 for files: external tables.
 */
export async function readForm (
  request: IncomingMessage, type: string, query: URLSearchParams, maxBytes: number
): Promise<void> {
  const chunks: Buffer[] = []
  let bytes = 0
  // Whoever sends too much is to read the refusal: the connection stays.
  const body: AsyncIterable<Buffer> = decodeBody(request).iterator({ destroyOnReturn: false })
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > maxBytes) throw new QueryError(229, `Form is too large: more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  const form = await new Response(Buffer.concat(chunks), { headers: { 'content-type': type } }).formData()
    .catch((cause: unknown) => { throw new QueryError(36, `The body is no form: ${String(cause)}`) })
  for (const [name, value] of form) {
    if (typeof value !== 'string') throw new QueryError(344, 'Files in a form (external tables) are not supported')
    query.append(name, value)
  }
}
