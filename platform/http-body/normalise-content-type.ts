import { type IncomingHttpHeaders } from 'node:http'

const TOKEN = "[\\w!#$%&'*+.^`|~-]+"

/** What the framework takes for a media type (RFC 9110, 8.3.1). */
const VALID = new RegExp(`^\\s*${TOKEN}/${TOKEN}\\s*(?:;|$)`)
const FIRST = new RegExp(`${TOKEN}/${TOKEN}`)

/**
 * Makes a header `content-type` that is no media type one. Clients and proxies send `json`, an empty one, or the same
 * one twice (`application/json, application/json`), and the framework answers 415 before a parser is asked; here the
 * bytes of a body decide what it is, and the header is a hint.
 *
 * @param headers  Of the request; changed in place, so that what is forwarded is understood as well.
 */
export function normaliseContentType (headers: IncomingHttpHeaders): void {
  const type = headers['content-type']
  // What nearly every client sends.
  if (type === undefined || type === 'application/json' || VALID.test(type)) return
  const text = type.trim().toLowerCase()
  if (text === '') delete headers['content-type']
  else headers['content-type'] = FIRST.exec(text)?.[0] ?? (text.includes('json') ? 'application/json' : 'application/octet-stream')
}
