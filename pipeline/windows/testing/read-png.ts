import { inflateSync } from 'node:zlib'

/** Size of a PNG, and how many different bytes its pixels have; a blank one has few. */
export function readPng (png: Uint8Array): { width: number, height: number, different: number } {
  const bytes = Buffer.from(png)
  if (bytes.toString('latin1', 1, 4) !== 'PNG') throw new Error('no PNG')
  const data: Buffer[] = []
  for (let at = 8; at < bytes.length; at += 12 + bytes.readUInt32BE(at)) {
    const isPixels = bytes.toString('latin1', at + 4, at + 8) === 'IDAT'
    if (isPixels) data.push(bytes.subarray(at + 8, at + 8 + bytes.readUInt32BE(at)))
  }
  const different = new Set(inflateSync(Buffer.concat(data))).size
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20), different }
}
