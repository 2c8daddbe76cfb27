import { personUuid } from '../../../schema/wire/identity.ts'
import type { MergeUpdate, PersonUpdate } from '../../../schema/wire/persons-update.ts'
import type { StoredPerson } from './start-persons-stores.ts'

/**
 * What the rules of `docs/query/persons.md` make of a sequence of updates, as plainly as they can be said: the answer
 * that the tests compare the applier with. Shares no code with it but the computation of the uuid.
 */
export function applyToModel (updates: readonly (PersonUpdate | MergeUpdate)[]): StoredPerson[] {
  const persons = new Set<StoredPerson>()
  const done = new Set<string>()

  const find = (id: string): StoredPerson | undefined => [...persons].find((person) => person.distinctIds.includes(id))
  const create = (update: PersonUpdate | MergeUpdate, distinctIds: string[]): StoredPerson => {
    const person = {
      uuid: personUuid(update.projectId, update.distinctId),
      properties: {}, isIdentified: false, createdAt: update.timestamp, distinctIds
    }
    persons.add(person)
    return person
  }

  for (const update of updates) {
    // The same event again, from an SDK that got no answer.
    if (done.has(update.uuid)) continue
    done.add(update.uuid)

    if (update.kind === 'merge') merge(update)
    const person = find(update.distinctId) ?? create(update, [update.distinctId])
    if (update.kind === 'person' && update.identify === true) person.isIdentified = true
    const first = withoutBlankInitials(update.setOnce)
    const before = Object.entries(person.properties).filter(([name, value]) =>
      !(isBlankInitial(name, value) && Object.hasOwn(first, name)))
    const remaining = Object.entries({ ...first, ...Object.fromEntries(before), ...update.set })
      .filter(([name]) => !(update.unset ?? []).includes(name))
    person.properties = Object.fromEntries(remaining)
  }
  for (const person of persons) person.distinctIds.sort()
  return [...persons].sort((a, b) => (a.distinctIds[0] as string) < (b.distinctIds[0] as string) ? -1 : 1)

  function merge (update: MergeUpdate): void {
    const { distinctId, otherDistinctId } = update
    if (distinctId === otherDistinctId || isIllegal(distinctId) || isIllegal(otherDistinctId)) return
    const target = find(distinctId)
    const source = find(otherDistinctId)
    const survivor = target ?? source ?? create(update, [])
    if (target !== undefined && source !== undefined && target !== source) {
      target.isIdentified = true
      if (source.isIdentified && update.how !== 'force') return
      target.properties = { ...source.properties, ...target.properties }
      target.createdAt = Math.min(target.createdAt, source.createdAt)
      target.distinctIds.push(...source.distinctIds)
      persons.delete(source)
      return
    }
    const isNew = target === undefined || target === source
    if (update.identify !== false || !isNew) survivor.isIdentified = true
    survivor.distinctIds = [...new Set([...survivor.distinctIds, distinctId, otherDistinctId])]
  }
}

/** The illegal ids that the tests use. */
function isIllegal (id: string): boolean {
  return ['null', 'Anonymous', '"guest"', ' ', '00000000-0000-0000-0000-000000000000'].includes(id)
}

function withoutBlankInitials (properties: Record<string, unknown> = {}): Record<string, unknown> {
  return Object.fromEntries(Object.entries(properties).filter(([name, value]) => !isBlankInitial(name, value)))
}

function isBlankInitial (name: string, value: unknown): boolean {
  return name.startsWith('$initial_') && (value === null || value === '')
}
