/** Definitions as returned by the API, and their wording in the console. */
import type { Answer, Schema } from '../../api-types.ts'

export type Noted = Pick<EventDefinition, 'id' | 'name' | 'tags' | 'description' | 'owner' | 'verified' | 'hidden'>

export type EventDefinition = Schema<'EventDefinition'>
export type PropertyDefinition = Schema<'PropertyDefinition'>
export type EventProfile = Answer<'/api/projects/{project_id}/event_definitions/{id}/profile'>
export type PropertyProfile = Answer<'/api/projects/{project_id}/property_definitions/{id}/profile'>
export type SeenType = PropertyProfile['types'][number]

/** `none` is for values without a type of their own. */
export function nameType (type: string): string {
  return type === 'none' ? 'null, list or object' : type
}

/**
 * Whether the type of a property changes, in a sentence: a second type makes queries answer wrongly without an error.
 *
 * @param types  Most frequent first; those that only say that there was no value are no drift.
 */
export function describeDrift (types: readonly Pick<SeenType, 'type' | 'share' | 'first_seen_at'>[]): string {
  const typed = types.filter(({ type }) => type !== 'none')
  const [main, ...others] = typed
  if (types.length === 0) return 'No event carried it in the last 30 days.'
  if (main === undefined) return 'It had no value with a type in the last 30 days.'
  if (others.length === 0) return `Always ${nameType(main.type)} in the last 30 days.`
  const listed = others.map(({ type, share, first_seen_at: at }) =>
    `${nameType(type)} (${formatShare(share)}, since ${at.slice(0, 10)})`)
  return `Drifts: mostly ${nameType(main.type)}, but also ${listed.join(' and ')}.`
}

/** `12 %`; a share above zero that rounds to zero is `<1 %`. */
export function formatShare (share: number): string {
  if (share > 0 && share < 0.01) return '<1 %'
  return share < 1 && share > 0.99 ? '99 %' : `${Math.round(share * 100)} %`
}
