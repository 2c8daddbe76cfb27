import { createHash } from 'node:crypto'
import { openAsBlob } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { AwsClient } from 'aws4fetch'
import { Agent, type Dispatcher } from 'undici'
import { reasonOf } from '../../../engines/errors.ts'
import { createResolve, lookupBy } from '../resolve-name.ts'
import { type ExportTarget, textOf } from './export-target.ts'

export interface S3Settings {
  kind: 's3'
  /** URL of the service; empty: Amazon's of the region. */
  endpoint: string
  region: string
  bucket: string
  /** Before each name; empty or with a slash at its end. */
  prefix: string
  access_key_id: string
  secret_access_key: string
}

/** Size of the parts of a larger file, in bytes: S3 takes at most 5 GB in one request, and 10,000 parts. */
const PART_BYTES = 2_147_483_648

/**
 * Time to the answer of an upload of that size over a slow line, and of other requests, in milliseconds. An answer may
 * go on while bytes come: `fetch` ends one that is silent for five minutes.
 */
const UPLOAD_MS = 1_800_000
const REQUEST_MS = 60_000

/** Of all answers that list a folder, in bytes: those of half a million objects. */
const MAX_LISTED = 200_000_000

const ONCE = { 'if-none-match': '*' }

type Fields = Record<string, string>

interface Sent { method: string, body?: Blob, headers?: Fields, ms?: number, query?: Fields }

/** @param name  Null: of the bucket. */
type Send = (name: string | null, signal: AbortSignal, sent: Sent, allowed?: readonly number[]) => Promise<Response>

/** Connects for all exports: a name whose servers are silent delays no other one. */
const agent = new Agent({ connect: { lookup: lookupBy(createResolve({ likeMachine: true })) } })

/**
 * Storage that speaks S3. A conditional PUT never replaces an object: where a service ignores the condition, only the
 * lease of the window stands between two processes that write it at once.
 */
export function openS3Target (
  settings: S3Settings, partBytes = PART_BYTES, dispatcher: Dispatcher = agent
): ExportTarget {
  // The types of Node's `fetch` are of another version of undici.
  const through: object = { dispatcher }
  const { region, bucket, prefix } = settings
  const endpoint = settings.endpoint === '' ? `https://s3.${region}.amazonaws.com` : settings.endpoint.replace(/\/+$/, '')
  const client = new AwsClient({
    accessKeyId: settings.access_key_id, secretAccessKey: settings.secret_access_key, service: 's3', region, retries: 2
  })

  const send: Send = async (name, signal, sent, allowed = []) => {
    const { method, body, headers = {}, ms = REQUEST_MS, query = {} } = sent
    const key = name === null ? '' : `/${prefix}${name}`
    const place = `${key.split('/').map(encodeURIComponent).join('/')}?${new URLSearchParams(query).toString()}`.replace(/\?$/, '')
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(new Error(`waited ${ms / 1000} s`)), ms)
    const response = await client.fetch(`${endpoint}/${bucket}${place}`, {
      method, headers, ...body === undefined ? {} : { body }, redirect: 'error', ...through, signal: AbortSignal.any([signal, late.signal])
    }).catch((error: unknown) => { throw new Error(`${endpoint} did not answer ${method}: ${reasonOf(error)}`, { cause: error }) })
      .finally(() => clearTimeout(timer))
    if (response.ok) return response
    if (allowed.includes(response.status)) {
      await response.body?.cancel()
      return response
    }
    throw refusal(`${method} of ${name === null ? bucket : `${prefix}${name}`}`, response.status, await readBody(response))
  }

  return {
    scratch: path.join(tmpdir(), 'millrace-exports'),
    async create (name, file, sha256, signal) {
      const body = await openAsBlob(file)
      if (body.size > partBytes) return await createInParts(send, name, { file: body, partBytes, prefix, signal })
      const headers = { ...ONCE, 'x-amz-content-sha256': sha256 }
      const { status } = await send(name, signal, { method: 'PUT', body, headers, ms: UPLOAD_MS }, [412])
      return status !== 412
    },
    async read (name, signal) {
      const { status, body } = await send(name, signal, { method: 'GET' }, [404])
      return status === 404 || body === null ? null : Readable.fromWeb(body)
    },
    async * listManifests (folder, signal) {
      let listed = 0
      for (let token: string | undefined = ''; token !== undefined;) {
        const query: Record<string, string> = { 'list-type': '2', prefix: `${prefix}${folder}/`, ...token !== '' && { 'continuation-token': token } }
        const page: string = await readBody(await send(null, signal, { method: 'GET', query }))
        listed += Math.max(page.length, 1000)
        if (listed > MAX_LISTED) throw new Error(`the target lists more than ${MAX_LISTED} bytes of names`)
        // They have no character that XML escapes.
        for (const [, name = ''] of page.matchAll(/\/(date=[\d-]+\/(?:hour=\d\d\/)?r\d+\.manifest\.json)<\/Key>/g)) yield name
        token = /<NextContinuationToken>([^<]+)</.exec(page)?.[1]?.replaceAll('&amp;', '&')
      }
    },
    async remove (name, signal) {
      await send(name, signal, { method: 'DELETE' }, [404])
    }
  }
}

/** The object appears whole with the last request, unless it is there already: false. */
async function createInParts (
  send: Send, name: string,
  { file, partBytes, prefix, signal }: { file: Blob, partBytes: number, prefix: string, signal: AbortSignal }
): Promise<boolean> {
  const begun = await readBody(await send(name, signal, { method: 'POST', query: { uploads: '' } }))
  const [, uploadId] = /<UploadId>([^<]+)</.exec(begun) ?? []
  if (uploadId === undefined) throw refusal(`POST of ${prefix}${name}`, 200, begun)
  let isCreated = false
  try {
    let parts = ''
    for (let [at, partNumber] = [0, 1]; at < file.size; at += partBytes, partNumber++) {
      const body = file.slice(at, at + partBytes)
      const digest = createHash('sha256')
      for await (const chunk of body.stream()) digest.update(chunk)
      const headers = { 'x-amz-content-sha256': digest.digest('hex') }
      const query = { partNumber: String(partNumber), uploadId }
      const part = await send(name, signal, { method: 'PUT', body, headers, ms: UPLOAD_MS, query })
      parts += `<Part><PartNumber>${partNumber}</PartNumber><ETag>${part.headers.get('etag')}</ETag></Part>`
    }
    const body = new Blob([`<CompleteMultipartUpload>${parts}</CompleteMultipartUpload>`])
    const ended = await send(name, signal, { method: 'POST', body, headers: ONCE, ms: UPLOAD_MS, query: { uploadId } }, [412])
    if (ended.status === 412) return false
    // Its status was sent before the outcome was known.
    const answer = await readBody(ended)
    isCreated = answer.includes('<CompleteMultipartUploadResult')
    if (!isCreated) throw refusal(`POST of ${prefix}${name}`, 200, answer)
    return true
  } finally {
    // Removes the parts. Safe to ignore: a rule of the bucket may remove them too.
    if (!isCreated) await send(name, AbortSignal.timeout(2000), { method: 'DELETE', query: { uploadId } }, [404]).catch(() => {})
  }
}

const readBody = async ({ body }: Response): Promise<string> => body === null ? '' : await textOf(Readable.fromWeb(body))

function refusal (request: string, status: number, answer: string): Error {
  return new Error(`S3 answered ${request} with ${status} ${/<Code>(\w+)<\/Code>/.exec(answer)?.[1] ?? ''}`.trimEnd())
}
