/** A person, and what is known of how it came to be what it is. */
import type { Answer, Schema } from '../../../schema/api-types.ts'
import { formatZoned } from '../format.ts'

/** A person as the management API shows it; at most 100 of its distinct ids. */
export type Person = Schema<'Person'>

/** What is known of how a person came to be what it is. */
export type PersonHistory = Schema<'PersonHistory'>

/** An event that set a property: of one name the last `$set` first, the first `$set_once` first. `value` is JSON. */
export type PropertySetting = PersonHistory['properties'][number]

/** A deletion, and how far it has come. */
export type PersonDeletion = Answer<'/api/projects/{project_id}/persons/deletions'>['results'][number]

/** A property, and the stored event that set it. */
export interface ShownProperty {
  name: string
  /** As JSON; a string without its quotes. */
  text: string
  setting: PropertySetting | undefined
  /** The event set another value than the person has. */
  isOther: boolean
}

export function listProperties (person: Person, history: PersonHistory | undefined): ShownProperty[] {
  const settings = Map.groupBy(history?.properties ?? [], (setting) => setting.name)
  return Object.entries(person.properties).sort(([one], [other]) => one < other ? -1 : 1).map(([name, value]) => {
    const json = JSON.stringify(value)
    const setting = chooseSetting(settings.get(name) ?? [], json)
    return { name, text: typeof value === 'string' ? value : json, setting, isOther: setting !== undefined && !isSame(setting.value, json) }
  })
}

/** Of several that were received at one time, the one that fits what the person has. */
function chooseSetting (settings: readonly PropertySetting[], json: string): PropertySetting | undefined {
  const set = settings.filter(({ how }) => how === '$set')
  const [first, ...others] = set.length > 0 ? set : settings
  if (first === undefined) return undefined
  const together = [first, ...others.filter(({ received_at: at }) => at === first.received_at)]
  return together.find(({ value }) => isSame(value, json)) ?? first
}

/** Values are compared as JSON; a cut one by its beginning. */
function isSame (sent: string, stored: string): boolean {
  if (sent.length >= 1000) return true
  try {
    return canonical(JSON.parse(sent)) === canonical(JSON.parse(stored))
  } catch {
    return sent === stored
  }
}

function canonical (value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${Object.entries(value).sort(([one], [other]) => one < other ? -1 : 1).map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(',')}}`
}

/** When a property was set, in words. */
export function describeSetting ({ setting, isOther }: ShownProperty, isKnown: boolean): string {
  if (setting === undefined) return isKnown ? 'no stored event sets it: the event is gone, or it came by a merge' : ''
  const how = setting.how === '$set_once' ? 'first sent' : 'set'
  return `${how} ${formatZoned(setting.at)}${isOther ? ', to another value than now' : ''}`
}

/** How a distinct id came to the person, and when. */
export function describeId ({ is_first: isFirst, since }: PersonHistory['distinct_ids'][number]): string {
  const when = since === null ? '' : ` ${formatZoned(since)}`
  return isFirst ? `the first, since${when === '' ? ' the beginning' : when}` : `joined${when}`
}

/** How far a deletion has come, in words. */
export function describeDeletion ({ with_events: withEvents, done_at: done, swept_at: swept }: PersonDeletion): string {
  const what = withEvents ? 'the person and its events' : 'the person'
  if (done === null) return `Being deleted from ClickHouse: ${what}. In Postgres the person is gone, and flags no longer know it.`
  if (swept === null) return `A count found nothing left of ${what}. What was on its way at the time of the request is deleted once more when it has arrived.`
  return `Deleted: ${what}. A count found nothing left, also of what was on its way at the time of the request.`
}
