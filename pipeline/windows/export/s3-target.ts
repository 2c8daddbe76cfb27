import { openAsBlob } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { AwsClient } from 'aws4fetch'
import { reasonOf } from '../../../engines/errors.ts'
import type { ExportTarget } from './export-target.ts'

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

/** An upload of some GB over a slow line, and a request without a body, in milliseconds. */
const UPLOAD_MS = 1_800_000
const REQUEST_MS = 60_000

interface Sent {
  method: string
  body?: Blob
  headers?: Record<string, string>
  ms?: number
  /** In the place of the name: of the bucket. */
  query?: Record<string, string>
}

/**
 * Storage that speaks S3. A conditional PUT never replaces an object: where a service ignores the condition, only the
 * lease of the window stands between two processes that write it at once.
 */
export function openS3Target (settings: S3Settings): ExportTarget {
  const { region, bucket, prefix } = settings
  const endpoint = settings.endpoint === '' ? `https://s3.${region}.amazonaws.com` : settings.endpoint.replace(/\/+$/, '')
  const client = new AwsClient({
    accessKeyId: settings.access_key_id, secretAccessKey: settings.secret_access_key, service: 's3', region, retries: 2
  })

  async function send (
    name: string, signal: AbortSignal, { method, body, headers = {}, ms = REQUEST_MS, query }: Sent,
    allowed: readonly number[]
  ): Promise<Response> {
    const key = `${prefix}${name}`.split('/').map(encodeURIComponent).join('/')
    const place = query === undefined ? `/${key}` : `?${new URLSearchParams(query).toString()}`
    const response = await client.fetch(`${endpoint}/${bucket}${place}`, {
      method, headers, ...body === undefined ? {} : { body }, redirect: 'error', signal: AbortSignal.any([signal, AbortSignal.timeout(ms)])
    }).catch((error: unknown) => { throw new Error(`${endpoint} did not answer ${method}: ${reasonOf(error)}`, { cause: error }) })
    if (response.ok) return response
    if (allowed.includes(response.status)) {
      await response.body?.cancel()
      return response
    }
    const code = /<Code>(\w+)<\/Code>/.exec(await response.text())?.[1] ?? ''
    throw new Error(`S3 answered ${method} of ${prefix}${name} with ${response.status} ${code}`.trimEnd())
  }

  return {
    scratch: path.join(tmpdir(), 'millrace-exports'),
    async create (name, file, sha256, signal) {
      const headers = { 'if-none-match': '*', 'x-amz-content-sha256': sha256 }
      const { status } = await send(name, signal, { method: 'PUT', body: await openAsBlob(file), headers, ms: UPLOAD_MS }, [412])
      return status !== 412
    },
    async read (name, signal) {
      const { status, body } = await send(name, signal, { method: 'GET', ms: UPLOAD_MS }, [404])
      return status === 404 || body === null ? null : Readable.fromWeb(body)
    },
    async listManifests (folder, signal) {
      const found: string[] = []
      for (let token: string | undefined = ''; token !== undefined;) {
        const query: Record<string, string> = { 'list-type': '2', prefix: `${prefix}${folder}/`, ...token !== '' && { 'continuation-token': token } }
        const page: string = await (await send(folder, signal, { method: 'GET', query }, [])).text()
        // They have no character that XML escapes.
        for (const [, name = ''] of page.matchAll(/\/(date=[\d-]+\/(?:hour=\d\d\/)?r\d+\.manifest\.json)<\/Key>/g)) found.push(name)
        token = /<NextContinuationToken>([^<]+)</.exec(page)?.[1]?.replaceAll('&amp;', '&')
      }
      return found
    },
    async remove (name, signal) {
      await send(name, signal, { method: 'DELETE' }, [404])
    }
  }
}
