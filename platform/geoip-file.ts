import { open, stat } from 'node:fs/promises'
import { MillraceError } from '../engines/errors.ts'
import { type LocateAddress, openGeoip } from '../engines/enrichment/geoip.ts'
import type { HealthPart } from './health-and-readiness.ts'
import type { Logger } from './logger.ts'

/** How often a file is looked at for whether it was replaced. */
const LOOK_EVERY_MS = 10_000

/** A file of cities has 60 to 130 MB. */
const MAX_FILE_BYTES = 536_870_912

/** The bytes of a file, which threads share. */
export interface GeoipData {
  bytes: SharedArrayBuffer
  /** Another number for other bytes. */
  version: number
}

/** The file of `MILLRACE_GEOIP_PATH`, as it is now. */
export interface GeoipFile {
  locate: LocateAddress
  /** For threads; null while there is no file that could be read. */
  readonly data: GeoipData | null
  /** Empty without a path. */
  parts: () => HealthPart[]
  close: () => void
}

/**
 * Reads the file of places and follows it: one that is replaced counts some seconds later. Without a path there are no
 * places, at no cost. A file that is missing or damaged stops nothing: it is logged once for each state of the file,
 * health says so, and the last good one stays in use.
 */
export async function openGeoipFile (path: string, logger: Logger, lookEveryMs = LOOK_EVERY_MS): Promise<GeoipFile> {
  if (path === '') return { locate: () => null, data: null, parts: () => [], close () {} }
  let locate: LocateAddress = () => null
  let data: GeoipData | null = null
  let lastError: string | null = null
  /** What the file looked like when it was read last. */
  let seen = ''

  async function read (): Promise<void> {
    let state = ''
    try {
      const { mtimeMs, size, ino } = await stat(path)
      state = `${mtimeMs} ${size} ${ino}`
      if (state === seen) return
      const bytes = await readShared(path)
      locate = openGeoip(Buffer.from(bytes))
      data = { bytes, version: (data?.version ?? 0) + 1 }
      lastError = null
      logger.info({ path, bytes: bytes.byteLength }, 'loaded the GeoIP file')
    } catch (cause) {
      state ||= 'missing'
      if (state === seen) return
      lastError = `${path} cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`
      const err = new MillraceError('MILLRACE_GEOIP_UNREADABLE', `The file of MILLRACE_GEOIP_PATH cannot be used: ${path}`,
        { action: 'retry', cause })
      logger.error({ err }, data === null
        ? 'events are stored without countries until the file can be read'
        : 'the GeoIP file was replaced by one that cannot be read; the previous one stays in use')
    }
    seen = state
  }

  await read()
  const timer = setInterval(() => { void read() }, lookEveryMs)
  timer.unref()
  return {
    locate: (address) => locate(address),
    get data () { return data },
    parts: () => [{ name: 'geoip', healthy: lastError === null, lastError }],
    close: () => clearInterval(timer)
  }
}

async function readShared (path: string): Promise<SharedArrayBuffer> {
  await using file = await open(path)
  const { size } = await file.stat()
  if (size > MAX_FILE_BYTES) throw new Error(`it has ${size} bytes, more than the maximum of ${MAX_FILE_BYTES}`)
  const bytes = new SharedArrayBuffer(size)
  const into = new Uint8Array(bytes)
  let at = 0
  while (at < size) {
    const { bytesRead } = await file.read(into, at, size - at, at)
    if (bytesRead === 0) throw new Error('it was truncated while being read')
    at += bytesRead
  }
  return bytes
}
