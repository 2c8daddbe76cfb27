import type { ModelProperty } from '../../api/testing/property-model.ts'

/** A type, as counted; null for what has none. */
export type CountedType = 'String' | 'Numeric' | 'Boolean' | 'DateTime' | null

/** A property and its values, each with the type that docs/reference/contract/sdks.md 3.2 gives it. */
export interface MadeUpProperty {
  name: string
  type: ModelProperty['type']
  groupType: string
  /** The value of its nth occurrence. */
  value: (occurrence: number) => [value: unknown, type: CountedType]
}

/** Seconds since 1970, as clients write times that must count as such: not older than half a year. */
const NOW_SECONDS = Math.floor(Date.now() / 1000)

/** How many of its first values a healed property has of the wrong type. */
export const WRONG_AT_FIRST = 5

type Kind = [name: string, value: MadeUpProperty['value']]

/** One of each rule; the names are numbered. */
const KINDS: readonly Kind[] = [
  ['count', (n) => [n, 'Numeric']],
  ['share of', (n) => [n / 7, 'Numeric']],
  ['label', (n) => [`v${n % 9}`, 'String']],
  ['number as text', (n) => [String(n), 'String']],
  ['is on', (n) => [n % 2 === 0, 'Boolean']],
  ['answer', (n) => [n % 2 === 0 ? ' false' : 'TRUE', 'Boolean']],
  ['day', () => ['2026-01-31', 'DateTime']],
  ['moment', () => ['Fri, 30 Jan 2026 10:20:30 +0000', 'DateTime']],
  ['seen_at', (n) => [NOW_SECONDS - n, 'DateTime']],
  ['spent time', (n) => [n, 'Numeric']],
  ['utm_medium', (n) => [n, 'String']],
  ['$feature/flag', (n) => [n % 2 === 0, 'String']],
  ['nothing', (n) => [[null, [n], { n }][n % 3], null]],
  ['healed', (n) => n < WRONG_AT_FIRST ? ['unknown', 'String'] : [n, 'Numeric']],
  ['mostly text', (n) => n % 4 === 3 ? [n, 'Numeric'] : [`t${n}`, 'String']],
  ['100%_of "it\'s" (a.*b, c)', (n) => [n, 'Numeric']],
  ['Größe 🎉', (n) => [`${n} m`, 'String']]
]

/** Makes as many properties as asked for, of every kind in turn. */
export function makeUpProperties (
  count: number, type: MadeUpProperty['type'], groupType = ''
): MadeUpProperty[] {
  return Array.from({ length: count }, (_, index) => {
    const [name, value] = KINDS[index % KINDS.length] as Kind
    return { name: `${name} ${Math.floor(index / KINDS.length)}`, type, groupType, value }
  })
}
