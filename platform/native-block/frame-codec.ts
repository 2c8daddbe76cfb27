import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'
import { decodeNativeBlock } from './decode-native-block.ts'
import { encodeNativeBlock } from './encode-native-block.ts'
import { type NativeBlock } from './native-block.ts'

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

/** A frame that inflates to more is not ours, in bytes: ingest publishes near 1 MB, one huge event at most 32 MB. */
const MAX_BLOCK_BYTES = 268_435_456

/**
 * Inflates and decodes a frame. For rare paths: the main path never looks into one.
 *
 * @param options.columns  Decode only the first columns.
 * @throws when the bytes are not a zstd frame of one Native block.
 */
export async function decodeFrame (frame: Uint8Array, options: { columns?: number } = {}): Promise<NativeBlock> {
  return decodeNativeBlock(await decompress(frame, { maxOutputLength: MAX_BLOCK_BYTES }), options)
}

export async function encodeFrame (block: NativeBlock): Promise<Uint8Array> {
  return await compress(encodeNativeBlock(block), { params: { [constants.ZSTD_c_compressionLevel]: 1 } })
}
