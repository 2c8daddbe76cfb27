import { type FlagDefinition } from '../flag-definition.ts'
import { type Subject } from '../subject.ts'

/** The request names no group of the type that a condition counts by. */
export const NO_GROUP = Symbol('no group')

/** The flag counts by devices and the request names none. */
export const NO_DEVICE = Symbol('no device')

/** Only Postgres knows what was hashed for this person before. */
export const UNREAD_IDENTIFIER = Symbol('unread identifier')

export type Identifier = string | typeof NO_GROUP | typeof NO_DEVICE | typeof UNREAD_IDENTIFIER

/** Gives what is hashed for a subject. */
export type Identify = (subject: Subject) => Identifier

/**
 * Chooses what a condition counts by: the group's key, the device, or the person. For a flag with experience
 * continuity a person is what was stored when it was first seen, else its anonymous id, else its distinct id.
 *
 * @param aggregation  Group type index; null: persons.
 */
export function compileIdentify (flag: FlagDefinition, aggregation: number | null): Identify {
  if (aggregation !== null) {
    return (subject) => {
      const key = subject.groupKeys[aggregation]
      return key === undefined || key === '' ? NO_GROUP : key
    }
  }
  if (flag.bucketingIdentifier === 'device_id') {
    return ({ deviceId }) => (deviceId === null || deviceId === '' ? NO_DEVICE : deviceId)
  }
  if (!flag.ensureExperienceContinuity) return ({ distinctId }) => distinctId
  return (subject) => {
    const { stored } = subject
    if (stored === null) return UNREAD_IDENTIFIER
    const override = stored.hashKeyOverrides.get(flag.key)
    if (override === undefined && stored.hashKeysUnknown) return UNREAD_IDENTIFIER
    return override ?? subject.anonDistinctId ?? subject.distinctId
  }
}

/** Tells whether a condition that counts like this can be tried at all; hashing may not be needed for it. */
export function isIdentified (subject: Subject, flag: FlagDefinition, aggregation: number | null): boolean {
  if (aggregation !== null) return Boolean(subject.groupKeys[aggregation])
  return flag.bucketingIdentifier !== 'device_id' || Boolean(subject.deviceId)
}
