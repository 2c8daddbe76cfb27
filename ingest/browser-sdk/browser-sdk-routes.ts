import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { hasEntityTag } from '../../engines/body/entity-tag.ts'
import { HttpError } from '../../engines/errors.ts'
import { buildRemoteConfig, buildRemoteConfigScript } from '../../engines/flags/remote-config.ts'
import { allowOrigin, allowPreflight } from '../../platform/cross-origin.ts'
import type { KeyDirectory } from '../../platform/directory/key-directory.ts'
import { isPersonalKey } from '../../schema/key-text.ts'
import { CAPTURE_SCOPE } from '../../schema/scopes.ts'

export interface BrowserSdkOptions {
  keys: KeyDirectory
  files: SdkFiles
}

const SCRIPT = 'application/javascript; charset=utf-8'
const JSON_TYPE = 'application/json; charset=utf-8'

/** An address with the version in it always means the same bytes. */
const FOR_EVER = 'public, max-age=31536000, immutable'

/** Other addresses mean the newest version: a page has an update after an hour. */
const FOR_AN_HOUR = 'public, max-age=3600, stale-while-revalidate=86400'

/** What depends on the project. */
const FOR_MINUTES = 'public, max-age=300, stale-while-revalidate=3600'

/** Compressed scripts of the SDK in memory, some 100 KB each: those that pages use, and those of 50 projects. */
const MAX_ASSETS = 200

/**
 * What pages load: the scripts of posthog-js, unmodified, and the remote configuration.
 *
 * - `/static/array.js`: the SDK, as the standard snippet loads it, and the scripts that it asks for later
 *   (`/static/<name>.js?v=<version>`, `/static/<version>/<name>.js`); their source maps; `/static/LICENSE`
 * - `/array/<key>/config` and `config.js`: the configuration, as JSON and as a script
 * - `/array/<key>/array.js`: both, for pages that want a single request
 *
 * Ingest serves them itself: a page that cannot load its SDK loses its events, whether or not the API is there.
 */
export async function browserSdkRoutes (app: FastifyInstance, { keys, files }: BrowserSdkOptions): Promise<void> {
  const sendAsset = createSendAsset(MAX_ASSETS)
  for (const url of ['/static/*', '/array/*']) {
    app.options(url, async (request, reply) => {
      allowOrigin(request, reply)
      return await allowPreflight(request, reply, 'GET, HEAD, OPTIONS').code(204).send()
    })
  }
  await app.register(staticRoutes, { files, sendAsset })
  await app.register(projectRoutes, { keys, files, sendAsset })
}

type RouteOptions<Key extends keyof BrowserSdkOptions> = Pick<BrowserSdkOptions, Key> & { sendAsset: SendAsset }

async function staticRoutes (app: FastifyInstance, { files, sendAsset }: RouteOptions<'files'>): Promise<void> {
  app.addHook('onRequest', async (_request, reply) => {
    // The same for everybody, so that caches may share it; loaded with `crossorigin="anonymous"`.
    reply.header('access-control-allow-origin', '*').header('cross-origin-resource-policy', 'cross-origin')
  })

  app.get('/static/*', async (request, reply) => {
    const asset = findAsset((request.params as { '*': string })['*'], (request.query as { v?: unknown }).v)
    if (asset === undefined) throw noSuchFile()
    return await sendAsset(request, reply.header('link', '</static/LICENSE>; rel="license"'), asset)
  })

  function findAsset (path: string, queried: unknown): Asset | undefined {
    if (path === 'LICENSE') {
      return { name: path, contentType: 'text/plain; charset=utf-8', cacheControl: FOR_AN_HOUR, load: files.readLicence }
    }
    const [, inPath, name = ''] = /^(?:([\d.]+)\/)?([^/]+)$/.exec(path) ?? []
    // `1` and `1.434` are names of the newest version that begins so.
    if (!files.has(name) || (inPath !== undefined && !`${files.version}.`.startsWith(`${inPath}.`))) return undefined
    return {
      name,
      contentType: name.endsWith('.map') ? JSON_TYPE : SCRIPT,
      cacheControl: (inPath ?? queried) === files.version ? FOR_EVER : FOR_AN_HOUR,
      load: async () => await files.read(name)
    }
  }
}

async function projectRoutes (app: FastifyInstance, { keys, files, sendAsset }: RouteOptions<'keys' | 'files'>): Promise<void> {
  app.addHook('onRequest', async (request, reply) => allowOrigin(request, reply))

  app.get('/array/*', async () => { throw noSuchFile() })
  app.get('/array/:key/config', async (request, reply) => {
    const key = await readKey(request)
    return await send(request, reply, 'config', JSON_TYPE, async () => Buffer.from(JSON.stringify(buildRemoteConfig(key))))
  })
  app.get('/array/:key/config.js', async (request, reply) => {
    const key = await readKey(request)
    return await send(request, reply, 'config.js', SCRIPT, async () => Buffer.from(buildRemoteConfigScript(key)))
  })
  app.get('/array/:key/array.js', async (request, reply) => {
    const key = await readKey(request)
    return await send(request, reply.header('link', '</static/LICENSE>; rel="license"'), 'array.js', SCRIPT, async () =>
      Buffer.concat([Buffer.from(buildRemoteConfigScript(key)), await files.read('array.js')]))
  })

  /** @throws {HttpError} 401 for a key that is no project's, 503 while that cannot be known. */
  async function readKey (request: FastifyRequest): Promise<string> {
    const { key } = request.params as { key: string }
    // A personal key must not be in a path, because paths are logged.
    if (isPersonalKey(key)) throw new HttpError(401, 'authentication_error', 'invalid_api_key', 'Use a project API key.')
    await keys.findProject(key, undefined, CAPTURE_SCOPE)
    return key
  }

  async function send (
    request: FastifyRequest, reply: FastifyReply, file: string, contentType: string, load: Asset['load']
  ): Promise<FastifyReply> {
    const { key } = request.params as { key: string }
    return await sendAsset(request, reply, { name: `${key}/${file}`, contentType, cacheControl: FOR_MINUTES, load })
  }
}

function noSuchFile (): HttpError {
  return new HttpError(404, 'invalid_request', 'not_found', 'There is no such posthog-js file.')
}

/** A file served under one name. */
interface Asset {
  /** Unlike that of any asset with other contents, for as long as the process runs. */
  name: string
  contentType: string
  cacheControl: string
  load: () => Promise<Buffer>
}

type SendAsset = (request: FastifyRequest, reply: FastifyReply, asset: Asset) => Promise<FastifyReply>

const ENCODINGS = ['br', 'gzip', 'identity'] as const
type Encoding = (typeof ENCODINGS)[number]

interface EncodedAsset {
  bytes: Buffer
  etag: string
}

/** 8 % larger than at 11, the best, for a twelfth of the CPU: 35 ms for `array.js` of 1.434.18, not 434. */
const BROTLI_QUALITY = 9

const compress: Record<Encoding, (bytes: Buffer) => Promise<Buffer>> = {
  br: async (bytes) => await promisify(zlib.brotliCompress)(bytes, {
    params: {
      [zlib.constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
      [zlib.constants.BROTLI_PARAM_SIZE_HINT]: bytes.length
    }
  }),
  gzip: async (bytes) => await promisify(zlib.gzip)(bytes, { level: 9 }),
  identity: async (bytes) => bytes
}

/**
 * Sends assets compressed as the client can read them, answers 304 to a client that has them, and remembers the
 * compressed bytes: each is compressed once, in a thread, when it is asked for first.
 *
 * @param maxAssets  Size of the cache; the least recently used file is evicted.
 */
function createSendAsset (maxAssets: number): SendAsset {
  const remembered = new Map<string, Promise<EncodedAsset>>()

  return async function sendAsset (request, reply, asset) {
    const encoding = chooseEncoding(request.headers['accept-encoding'])
    const { bytes, etag } = await find(`${encoding} ${asset.name}`, asset, encoding)
    reply
      .header('etag', etag)
      .header('cache-control', asset.cacheControl)
      .header('vary', addTo(reply.getHeader('vary'), 'Accept-Encoding'))
      .header('x-content-type-options', 'nosniff')
    if (hasEntityTag(request.headers['if-none-match'], etag)) return await reply.code(304).send()
    if (encoding !== 'identity') reply.header('content-encoding', encoding)
    return await reply.type(asset.contentType).send(bytes)
  }

  function find (key: string, asset: Asset, encoding: Encoding): Promise<EncodedAsset> {
    const known = remembered.get(key)
    // Deleted and set again it is the youngest of the map, whose order is that of insertion.
    remembered.delete(key)
    const found = known ?? encode(asset, encoding).catch((error: unknown) => {
      remembered.delete(key)
      throw error
    })
    remembered.set(key, found)
    const [oldest] = remembered.keys()
    if (remembered.size > maxAssets && oldest !== undefined) remembered.delete(oldest)
    return found
  }
}

async function encode (asset: Asset, encoding: Encoding): Promise<EncodedAsset> {
  const plain = await asset.load()
  const hash = createHash('sha256').update(plain).digest('base64url').slice(0, 22)
  return { bytes: await compress[encoding](plain), etag: `"${hash}-${encoding}"` }
}

/** The best encoding that the client names with a weight above 0. */
function chooseEncoding (accepted: string | string[] | undefined): Encoding {
  const named = new Set<string>()
  for (const part of String(accepted ?? '').toLowerCase().split(',')) {
    const [name = '', ...parameters] = part.split(';').map((text) => text.trim())
    if (!parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))) named.add(name)
  }
  return ENCODINGS.find((encoding) => named.has(encoding)) ?? 'identity'
}

function addTo (vary: unknown, name: string): string {
  return typeof vary === 'string' && vary !== '' ? `${vary}, ${name}` : name
}

/** The scripts of the npm package `posthog-js`, as it publishes them, at the version that our tests run. */
export interface SdkFiles {
  /** Version of the package: `1.434.18`. */
  version: string
  /** Whether the package has a script, or source map, of this name that a page may load. */
  has (name: string): boolean
  read (name: string): Promise<Buffer>
  /** The licence of the package, which is served beside the scripts. */
  readLicence (): Promise<Buffer>
}

/** Entry points for bundlers; what a page loads by a `<script>` is every other file. */
const FOR_BUNDLERS = /^(?:main|module|rrweb)\b/

/**
 * Finds the package and lists its scripts.
 *
 * @throws when the package is not installed.
 */
export async function openSdkFiles (): Promise<SdkFiles> {
  const require = createRequire(import.meta.url)
  const manifest = require.resolve('posthog-js/package.json')
  const { version } = require(manifest) as { version: string }
  const folder = path.join(path.dirname(manifest), 'dist')
  // Only names of this list are ever opened: a path of a request cannot leave the folder.
  const names = new Set((await readdir(folder)).filter((name) => /\.js(?:\.map)?$/.test(name) && !FOR_BUNDLERS.test(name)))
  return {
    version,
    has: (name) => names.has(name),
    read: async (name) => await readFile(path.join(folder, name)),
    readLicence: async () => await readFile(path.join(path.dirname(manifest), 'LICENSE'))
  }
}
