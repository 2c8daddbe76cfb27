import { FINGERPRINT_BYTES } from '../../../schema/frame-message.ts'
import { type PartitionMessage } from '../partition-reader.ts'
import { type EventIdentity, identityKey, type LookUpEvents, readIdentities, uuidTime } from './look-up-events.ts'

/** Why a message is looked into. */
export interface Suspicion {
  message: PartitionMessage
  /** Rows whose fingerprint was known already. */
  knownRows: readonly number[]
  /** Every row with an uuid made before this is suspicious as well, epoch ms; Infinity for all rows. */
  madeBefore: number
}

/** Rows that are duplicates, by message, ascending. */
export type Duplicates = Map<PartitionMessage, number[]>

/**
 * Tells for suspicious rows of one batch range whether they are duplicates of stored events, or of events earlier in
 * the batch range. Equal fingerprints, or an old uuid, are no proof; identities are compared.
 *
 * @param range             All its messages in order: the first copy of a pair may be in an unsuspicious one.
 * @param options.onLookUp  Told how many rows are looked up.
 */
export async function confirmDuplicates (range: readonly PartitionMessage[], options: {
  suspicions: readonly Suspicion[]
  lookUpEvents: LookUpEvents
  onLookUp: (rows: number) => void
}): Promise<Duplicates> {
  const suspects = await readSuspects(range, options.suspicions)
  if (suspects.length === 0) return new Map()
  options.onLookUp(suspects.length)
  const stored = await options.lookUpEvents(suspects.map(({ identity }) => identity))

  const duplicates: Duplicates = new Map()
  const seen = new Map<string, number>()
  for (const { message, row, identity } of suspects) {
    const key = identityKey(identity)
    const day = seen.get(key)
    if (stored.has(key) || (day !== undefined && Math.abs(day - identity.day) <= 1)) {
      duplicates.set(message, [...duplicates.get(message) ?? [], row])
    } else {
      seen.set(key, identity.day)
    }
  }
  return duplicates
}

interface Suspect {
  message: PartitionMessage
  row: number
  identity: EventIdentity
}

/**
 * All rows in question, in order: the suspicious ones, and those of the batch range with the same fingerprint as one.
 */
async function readSuspects (range: readonly PartitionMessage[], suspicions: readonly Suspicion[]): Promise<Suspect[]> {
  const byMessage = new Map(suspicions.map((suspicion) => [suspicion.message, suspicion]))
  const fingerprints = new Set<string>()
  for (const { message, knownRows } of suspicions) {
    for (const row of knownRows) fingerprints.add(fingerprintOf(message, row))
  }

  const suspects: Suspect[] = []
  for (const message of range) {
    const rows = new Set<number>()
    if (fingerprints.size > 0) {
      for (let row = 0; row < message.rows; row++) if (fingerprints.has(fingerprintOf(message, row))) rows.add(row)
    }
    const madeBefore = byMessage.get(message)?.madeBefore ?? -Infinity
    if (rows.size === 0 && madeBefore === -Infinity) continue
    const identities = await readIdentities(message)
    identities?.forEach((identity, row) => {
      if (rows.has(row) || madeBefore === Infinity || uuidTime(identity) < madeBefore) {
        suspects.push({ message, row, identity })
      }
    })
  }
  return suspects
}

function fingerprintOf ({ payload }: PartitionMessage, row: number): string {
  const at = row * FINGERPRINT_BYTES
  return Buffer.from(payload.buffer, payload.byteOffset + at, FINGERPRINT_BYTES).toString('latin1')
}
