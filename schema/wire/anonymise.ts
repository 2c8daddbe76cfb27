/** Replaces the ids of people by random ones in what is stored about them, and leaves out properties. */
import { isExactNumber, parseStoredJson } from '../../engines/body/parse-json.ts'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { fieldsOf, isFields } from '../../engines/fields.ts'
import { EVENT_COLUMNS, type EventColumn, GROUP_TYPE_SEPARATOR, PROPERTY_ENTRY_SEPARATOR } from './event-row.ts'
import { toDistinctId } from './identity.ts'

export interface Anonymised {
  /** Random ids by distinct id. */
  ids: Readonly<Record<string, string>>
  /** New uuids of persons by the former ones, those computed from each id included; absent from old records. */
  persons?: Readonly<Record<string, string>>
  /** Names of properties that are left out. */
  removed: readonly string[]
}

/** Properties whose value is an id, also where it was sent as a number. */
const ID_PROPERTIES = ['distinct_id', '$anon_distinct_id', 'alias', '$user_id', '$device_id']

/** At every depth, texts and names that are an id become the random one, and the properties go. */
export function anonymiseValue (value: unknown, by: Anonymised): unknown {
  if (typeof value === 'string') return idOf(value, by)
  if (Array.isArray(value)) return value.map((each) => anonymiseValue(each, by))
  if (!isFields(value) || isExactNumber(value)) return value
  return Object.fromEntries(Object.entries(value).filter(([name]) => !by.removed.includes(name)).map(([name, each]) => {
    const id = ID_PROPERTIES.includes(name) ? toDistinctId(each) : ''
    return [idOf(name, by), Object.hasOwn(by.ids, id) ? by.ids[id] : anonymiseValue(each, by)]
  }))
}

/** The random id, when the text is one of the ids. */
export function idOf (text: string, { ids }: Anonymised): string {
  return Object.hasOwn(ids, text) ? ids[text] ?? text : text
}

/** The name of an entry; of a group's property, with its group type. */
function mapNames (names: string, by: Anonymised): string {
  return names.split(GROUP_TYPE_SEPARATOR).map((name) => idOf(name, by)).join(GROUP_TYPE_SEPARATOR)
}

const COLUMNS: readonly EventColumn[] = EVENT_COLUMNS
const PROMOTED = COLUMNS.filter(({ promotes }) => promotes !== undefined)

/** A row of `events`, as JSON has it, with the columns that follow from its properties. */
export function anonymiseEvent (row: Readonly<Record<string, unknown>>, by: Anonymised): Record<string, unknown> {
  const groups = Object.entries(fieldsOf(row.groups))
  const types = String(row.property_types).split(PROPERTY_ENTRY_SEPARATOR)
  const promoted = PROMOTED.map(({ name, promotes = '' }) =>
    [name, by.removed.includes(promotes) ? '' : idOf(String(row[name]), by)] as const)
  return {
    ...row,
    ...Object.fromEntries(promoted),
    distinct_id: idOf(String(row.distinct_id), by),
    properties: stringifyJson(anonymiseValue(parseStoredJson(String(row.properties)), by)),
    property_types: types.filter((entry) => entry.startsWith('g') || !by.removed.includes(entry.slice(2)))
      .map((entry) => `${entry.slice(0, 2)}${mapNames(entry.slice(2), by)}`).join(PROPERTY_ENTRY_SEPARATOR),
    groups: Object.fromEntries(groups.map(([type, key]) => [idOf(type, by), idOf(String(key), by)]))
  }
}
