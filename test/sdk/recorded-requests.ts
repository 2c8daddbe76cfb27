import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'

/** A request as an SDK sends it, written from its sources, because the SDK itself cannot run here. */
export interface RecordedRequest {
  /** What it asks for: `events`, `flags`, `flag definitions` and so on. */
  feature: string
  method: string
  path: string
  /** Lines of the head; `{{host}}`, `{{length}}`, `{{project key}}` and `{{personal key}}` are filled in. */
  head: string[]
  /** As it is before it is compressed. */
  body: string
  /** What must be stored of it, in the order of its events. */
  stored: StoredAs[]
}

export interface StoredAs {
  event: string
  distinctId: string
  /** When it happened: a time as it was sent, or milliseconds before the request, whose clock is corrected. */
  time: { at: number } | { msBeforeSending: number }
}

/** What one SDK sends. */
export interface RecordedSdk {
  name: string
  version: string
  /** Repository and files in which its requests are made. */
  source: string
  requests: RecordedRequest[]
}

const FOLDER = path.join(import.meta.dirname, 'recorded')

/** Reads `recorded/*.http`: name and version, source, then one request below each `###`. */
export function readRecordedSdks (): RecordedSdk[] {
  return readdirSync(FOLDER).sort().map((file) => {
    const [head = '', ...requests] = readFileSync(path.join(FOLDER, file), 'utf8').split(/^### /m)
    const [, name, version, source] = /^# (\S+) (\d\S+)\n# (.+)\n/.exec(head) ?? []
    if (name === undefined || version === undefined || source === undefined) throw new Error(`${file} does not say what it is`)
    return { name, version, source, requests: requests.map(readRequest) }
  })
}

function readRequest (text: string): RecordedRequest {
  const [head = '', body = ''] = text.trimEnd().split('\n\n')
  const [feature = '', ...lines] = head.split('\n')
  const notes = lines.filter((line) => line.startsWith('# '))
  const [request = '', ...headers] = lines.slice(notes.length)
  const [, method = '', url = ''] = /^(\S+) (.+) HTTP\/1\.1$/.exec(request) ?? []
  return { feature, method, path: url, head: [request, ...headers], body, stored: notes.map(readNote) }
}

function readNote (line: string): StoredAs {
  const [, event, distinctId, time] = /^# stored: (.+) \| (.+) \| (.+)$/.exec(line) ?? []
  if (event === undefined || distinctId === undefined || time === undefined) throw new Error(`cannot read: ${line}`)
  const [, before] = /^(\d+) ms before sending$/.exec(time) ?? []
  const parsed = before === undefined ? { at: Date.parse(time) } : { msBeforeSending: Number(before) }
  return { event, distinctId, time: parsed }
}

export interface Replayed {
  status: number
  head: string
  body: any
}

/** Sends the bytes of a request, compressed and in chunks if its head says so, and reads the answer. */
export async function replay (
  port: number, { head, body }: RecordedRequest, keys: { project: string, personal: string }
): Promise<Replayed> {
  const fill = (text: string): string =>
    text.replaceAll('{{project key}}', keys.project).replaceAll('{{personal key}}', keys.personal)
  const sent = head.some((line) => /^content-encoding: gzip$/i.test(line)) ? gzipSync(fill(body)) : Buffer.from(fill(body))
  const isChunked = head.some((line) => /^transfer-encoding: chunked$/i.test(line))
  const lines = head.map((line) => fill(line).replace('{{host}}', `127.0.0.1:${port}`).replace('{{length}}', String(sent.length)))
  const socket = connect(port, '127.0.0.1')
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  socket.write(isChunked ? inChunks(sent) : sent)
  let bytes = Buffer.alloc(0)
  try {
    for (;;) {
      const answer = readAnswer(bytes)
      if (answer !== undefined) return answer
      const [more] = await once(socket, 'data') as [Buffer]
      bytes = Buffer.concat([bytes, more])
    }
  } finally {
    socket.destroy()
  }
}

/** In two chunks, so that the end of the first is inside the JSON. */
function inChunks (body: Buffer): Buffer {
  const middle = Math.floor(body.length / 2)
  const chunks = [body.subarray(0, middle), body.subarray(middle), Buffer.alloc(0)]
  return Buffer.concat(chunks.flatMap((chunk) => [Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n')]))
}

/** The answer once it is whole. Those of Millrace have a length. */
function readAnswer (bytes: Buffer): Replayed | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const head = bytes.toString('latin1', 0, end)
  const [, length] = /^content-length: (\d+)$/im.exec(head) ?? []
  const text = bytes.subarray(end + 4)
  const status = Number(head.split(' ')[1])
  if (length === undefined && status !== 304) throw new Error(`an answer without length: ${head}`)
  if (text.length < Number(length ?? 0)) return undefined
  const plain = /^content-encoding: gzip$/im.test(head) ? gunzipSync(text) : text
  return { status, head, body: plain.length === 0 ? undefined : JSON.parse(plain.toString()) }
}
