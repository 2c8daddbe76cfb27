import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { hasEntityTag } from '../../engines/body/entity-tag.ts'

/** What is sent under one name. */
export interface Asset {
  /** Unlike that of any asset with other contents, for as long as the process runs. */
  name: string
  contentType: string
  cacheControl: string
  load: () => Promise<Buffer>
}

export type SendAsset = (request: FastifyRequest, reply: FastifyReply, asset: Asset) => Promise<FastifyReply>

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
 * @param maxAssets  So many are remembered; the one that was not asked for longest is forgotten.
 */
export function createSendAsset (maxAssets: number): SendAsset {
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
export function chooseEncoding (accepted: string | string[] | undefined): Encoding {
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
