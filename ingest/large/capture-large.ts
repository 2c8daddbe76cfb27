import { type BodyHints } from '../../platform/http-body/unwrap-body.ts'
import { type CaptureRequest } from '../capture/capture.ts'
import { type DropReason } from '../capture/drop-reason.ts'
import { type IngestCounts } from '../capture/ingest-counts.ts'
import { type KeyDirectory } from '../authenticate/key-directory.ts'
import { type PersonsPartitions } from '../publish/persons-partitions.ts'
import { type PublishFrames } from '../publish/publish-frames.ts'
import { type RateLimit } from '../authenticate/rate-limit.ts'
import { storedAddress } from '../capture/stored-address.ts'
import { type LargeBodyPool } from './large-body-pool.ts'

export interface CaptureLargeDeps {
  pool: LargeBodyPool
  keys: KeyDirectory
  persons: PersonsPartitions
  publishFrames: PublishFrames
  rateLimit: RateLimit
  counts: IngestCounts
  maxDecompressedBytes: number
  maxEventBytes: () => number
  partitions: number
}

export type CaptureLarge = (
  request: CaptureRequest & { chunks: Buffer[], hints: BodyHints, receivedAt: number }
) => Promise<void>

/**
 * The life of a large body: a worker thread takes it to finished frames, this thread looks up the key and publishes.
 */
export function createCaptureLarge (deps: CaptureLargeDeps): CaptureLarge {
  const { pool, keys, persons, publishFrames, rateLimit, counts } = deps

  return async function captureLarge ({ sender, requestId, query, isEngage, chunks, hints, receivedAt }) {
    let projectId = 0
    const { frames, updates, received, dropped } = await pool.run({
      chunks: chunks.map(ownMemory), hints, query, isEngage, requestId, receivedAt,
      maxDecompressedBytes: deps.maxDecompressedBytes, maxEventBytes: deps.maxEventBytes(), partitions: deps.partitions
    }, async (question) => {
      const project = await keys.resolve(question.apiKey, question.projectId)
      rateLimit.check(project.id)
      projectId = project.id
      return { project, ip: storedAddress(sender, query, project) }
    })
    rateLimit.spend(projectId, received)
    counts.received += received
    let refused = 0
    for (const [reason, count] of Object.entries(dropped)) {
      counts.dropped[reason as DropReason] += count
      refused += count
    }
    counts.accepted += received - refused
    const appended = updates.map(async (update) => await persons.append(update))
    await Promise.all([publishFrames(frames, requestId), ...appended])
  }
}

/** Bytes in memory that nothing else uses, as must be to hand them to another thread. */
function ownMemory (bytes: Buffer): Uint8Array {
  if (bytes.byteLength === bytes.buffer.byteLength) return bytes
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  copy.set(bytes)
  return copy
}
