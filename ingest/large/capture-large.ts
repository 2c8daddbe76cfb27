import type { BodyHints } from '../../engines/body/decode-body.ts'
import { MAX_RATIO } from '../../engines/body/decompress.ts'
import { peekInflatedBytes, peekKey } from '../../engines/body/peek-body.ts'
import type { CookielessSalts } from '../normalise/cookieless-salts.ts'
import type { GeoipFile } from '../../platform/geoip-file.ts'
import type { FingerprintKey } from '../../schema/wire/frame-message.ts'
import type { Admit, BodyRequest, TakenBody } from '../capture/take-parsed-body.ts'
import type { Publishing } from '../publish/open-publishing.ts'
import type { BodyBudget } from './body-budget.ts'
import type { LargeBodyPool, LargeBodyResult, PostponedBody } from './large-body-pool.ts'

export interface CaptureLargeDeps {
  publishing: Pick<Publishing, 'persons' | 'quarantine' | 'warnings' | 'publishFrames'>
  /** The threads that take large bodies, off the event loop. */
  pool: LargeBodyPool
  /** Memory of large bodies inflated, and of what comes of them. */
  inflated: BodyBudget
  secrets: IngestSecrets
  /** The file of places. */
  geoip: Pick<GeoipFile, 'data'>
  limits: BodyLimits
}

/** Secrets of this installation, which threads are given with each body. */
export interface IngestSecrets {
  /** That of fingerprints, null until it is known. */
  fingerprintKey: () => FingerprintKey | null
  /** The salts of visitors without cookies that are known. */
  cookielessSalts: () => CookielessSalts
}

export interface BodyLimits {
  /** Largest body on the wire, and after decompression. */
  maxBodyBytes: number
  maxDecompressedBytes: number
  /** Largest row that fits a message; depends on the server. */
  maxEventBytes: () => number
  /** Partitions of events. */
  partitions: number
}

export interface CaptureLargeHooks {
  admit: Admit
  /** Counts what became of the events, when all of the body proved good. */
  count (taken: TakenBody): void
}

/**
 * Takes a large body in a thread, and publishes what came of it.
 *
 * @returns resolves when everything is durable, with what became of the events.
 * @throws {HttpError} as `Capture`; 503 `overloaded` when there is no room for it.
 */
export type CaptureLarge = (
  chunks: readonly Buffer[], request: BodyRequest & { hints: BodyHints, sender: string }, hooks: CaptureLargeHooks
) => Promise<TakenBody>

/** Dead letters of a body in flight at a time: a body may have a million, and each is a message. */
const MAX_LETTERS_IN_FLIGHT = 64

/**
 * How large a body is without its compression, only inflating tells for sure: 175 KB may be 60 MB. Each takes room for
 * what it says or for the largest, corrects that when it is inflated, and keeps it until all is published. Brotli and
 * zstd may inflate a body as far as gzip could, and anything to what may come without compression.
 */
export function createCaptureLarge (deps: CaptureLargeDeps): CaptureLarge {
  const { pool, inflated, secrets, geoip, limits } = deps
  const { persons, quarantine, warnings, publishFrames } = deps.publishing

  return async function captureLarge (chunks, request, hooks) {
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    const maxBytes = Math.min(limits.maxDecompressedBytes, limits.maxBodyBytes + length * MAX_RATIO)
    const peeked = { maxBytes, likelyBytes: peekInflatedBytes(chunks, length, maxBytes), key: peekKey(chunks) }
    let result: TakenBody | PostponedBody = { chunks: chunks.map(ownMemory), projectId: null }
    while ('chunks' in result) result = await takeInTurn(result, peeked, request, hooks)
    return result
  }

  async function takeInTurn (
    { chunks, projectId }: PostponedBody, peeked: { maxBytes: number, likelyBytes: number, key: string },
    { sender, ...request }: Parameters<CaptureLarge>[1], { admit, count }: CaptureLargeHooks
  ): Promise<TakenBody | PostponedBody> {
    const { key, likelyBytes, maxBytes } = peeked
    const holder = projectId === null ? sender : holderOf(projectId)
    const lease = await inflated.acquire(likelyBytes, `${sender} ${key}`, { holder })
    try {
      const result = await pool.run({
        ...request,
        chunks,
        maxDecompressedBytes: maxBytes,
        maxEventBytes: limits.maxEventBytes(),
        partitions: limits.partitions,
        fingerprintKey: secrets.fingerprintKey(),
        cookielessSalts: secrets.cookielessSalts(),
        geoip: geoip.data
      }, {
        sender,
        key,
        projectId,
        onInflated: (bytes) => lease.resize(bytes),
        admit: async (credentials) => {
          const admission = await admit(credentials)
          lease.assign(holderOf(admission.project.id))
          return admission
        }
      })
      if ('chunks' in result) return result
      lease.resize([...result.frames, ...result.updates, ...result.letters]
        .reduce((bytes, { payload }) => bytes + payload.length, 0))
      count(result.taken)
      await publish(result, request.requestId)
      return result.taken
    } finally {
      lease.release()
    }
  }

  async function publish ({ taken, frames, updates, letters }: LargeBodyResult, requestId: string): Promise<void> {
    await Promise.all([
      publishFrames(frames, requestId),
      ...updates.map(async (joined) => await persons.appendJoined(taken.projectId, joined)),
      publishLetters(letters),
      ...taken.warnings === null ? [] : [warnings.add(taken.projectId, taken.warnings)]
    ])
  }

  async function publishLetters (letters: LargeBodyResult['letters']): Promise<void> {
    for (let at = 0; at < letters.length; at += MAX_LETTERS_IN_FLIGHT) {
      await Promise.all(letters.slice(at, at + MAX_LETTERS_IN_FLIGHT).map(quarantine.publish))
    }
  }
}

const holderOf = (projectId: number): string => `project ${projectId}`

/** Bytes in memory that nothing else uses, as must be to hand them to another thread. */
function ownMemory (bytes: Buffer): Uint8Array {
  if (bytes.byteLength === bytes.buffer.byteLength) return bytes
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  copy.set(bytes)
  return copy
}
