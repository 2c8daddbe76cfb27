import { GROUP_TYPE_SEPARATOR } from './event-row.ts'
import { isExactNumber, numberText } from '../../engines/body/parse-json.ts'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { cutText, REPLACEMENT, toStorableText } from '../../engines/body/storable-text.ts'
import { createUuidV5, textOfUuid } from '../../engines/uuid.ts'

/**
 * Who and what an event or a request is about, as it is stored. Anyone who takes an id or a name from outside
 * (capture, flags, persons, the command line) passes it through here, so that all of them speak of the same person,
 * group and event; see docs/decisions/0014-one-identity-function.md.
 *
 * The rule: a string is itself, a number is its text (`numberText`), any other JSON is its JSON text; cut to the
 * limit in characters (code points), and made storable (`storable-text.ts`). Blanks and case count.
 */

/** Characters of a distinct id at most; the reference system's limit (docs/reference/contract/sdks.md 1.7 and 2.2). */
export const MAX_DISTINCT_ID_LENGTH = 200

/** Characters of the name of an event and of a group type at most. */
export const MAX_NAME_LENGTH = 200

/** Characters of a group key at most; with 4 bytes each it still fits an index of Postgres (2,704 bytes). */
export const MAX_GROUP_KEY_LENGTH = 400

/** A distinct id as stored, also the anonymous one, the alias and the device's; empty without one. */
export function toDistinctId (value: unknown): string {
  return toStorableText(cutText(identityText(value), MAX_DISTINCT_ID_LENGTH))
}

/** The key of a group as stored; empty without one. */
export function toGroupKey (value: unknown): string {
  return toStorableText(cutText(identityText(value), MAX_GROUP_KEY_LENGTH))
}

/** A group type as stored; empty without one. The separator of `property_types` becomes U+FFFD, too. */
export function toGroupType (value: unknown): string {
  const name = toStorableText(cutText(identityText(value), MAX_NAME_LENGTH))
  return name.includes(GROUP_TYPE_SEPARATOR) ? name.replaceAll(GROUP_TYPE_SEPARATOR, REPLACEMENT) : name
}

/** The name of an event as stored. */
export function toEventName (name: string): string {
  return toStorableText(cutText(name, MAX_NAME_LENGTH))
}

/** Namespace of PostHog's person ids; ClickHouse computes `events.person_id` with the same. */
const PERSONS_NAMESPACE = Buffer.from('932979b465c3442484670b66ec27bc22', 'hex')

/** The id of the person of a distinct id until a merge changes it: the UUIDv5 of `<project>:<distinct id>`. */
export function personUuid (projectId: number, distinctId: string): string {
  return textOfUuid(createUuidV5(PERSONS_NAMESPACE, `${projectId}:${distinctId}`))
}

function identityText (value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  // A number beyond all doubles, such as 1e400, counts as absent, like NaN.
  if (typeof value === 'number') return Number.isFinite(value) ? numberText(value) : ''
  return isExactNumber(value) ? numberText(value) : stringifyJson(value)
}
