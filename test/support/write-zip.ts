import zlib from 'node:zlib'

/** A zip of stored files (PKWARE APPNOTE 4.3). */
export function writeZip (files: Readonly<Record<string, Buffer>>): Buffer {
  const parts: Buffer[] = []
  const central: Buffer[] = []
  let at = 0
  for (const [name, content] of Object.entries(files)) {
    const local = Buffer.concat([describeFile({ name, content }), content])
    central.push(describeFile({ name, content, at }))
    parts.push(local)
    at += local.length
  }
  const size = central.reduce((sum, { length }) => sum + length, 0)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(central.length, 8)
  end.writeUInt16LE(central.length, 10)
  end.writeUInt32LE(size, 12)
  end.writeUInt32LE(at, 16)
  return Buffer.concat([...parts, ...central, end])
}

/** @param file.at  Where the file begins, in its entry of the central directory; none in the header before the file. */
function describeFile ({ name, content, at }: { name: string, content: Buffer, at?: number }): Buffer {
  const header = Buffer.alloc(at === undefined ? 30 : 46)
  header.writeUInt32LE(at === undefined ? 0x04034b50 : 0x02014b50, 0)
  const shared = at === undefined ? 14 : 16
  header.writeUInt32LE(zlib.crc32(content), shared)
  header.writeUInt32LE(content.length, shared + 4)
  header.writeUInt32LE(content.length, shared + 8)
  header.writeUInt16LE(Buffer.byteLength(name), shared + 12)
  if (at !== undefined) header.writeUInt32LE(at, 42)
  return Buffer.concat([header, Buffer.from(name)])
}
