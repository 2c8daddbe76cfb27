import { type SqlToken, tokenizeSql } from '../../../engines/clickhouse-sql.ts'

/** What can be named in a query. */
export interface Catalog {
  tables: Table[]
}

export interface Table {
  name: string
  comment: string
  columns: { name: string, type: string, comment: string }[]
}

/** Something to put where the caret is. */
export interface Suggestion {
  text: string
  kind: 'table' | 'column' | 'function' | 'keyword' | 'event' | 'property'
  /** Type and comment of a column, and the like. */
  detail: string
}

/** The word at the caret, and what it may be. */
export interface Place {
  from: number
  to: number
  /** What was typed of it, as a value: without quotes. */
  typed: string
  /** Inside quotes: names of events, of properties, or of either. */
  inside: 'name' | 'event' | 'property' | 'string'
  /** After `FROM` or `JOIN` only tables, after `alias.` only columns of its table. */
  wants: 'any' | 'table' | { table: string }
  /** Tables that the query names, whose columns come first. */
  tables: readonly string[]
}

/** So many are offered at once. */
export const MAX_SUGGESTIONS = 50

const NAME = /^[A-Za-z_]\w*$/

/** @returns null where nothing is completed: in comments and numbers. */
export function findPlace (sql: string, caret: number): Place | null {
  const tokens = tokenizeSql(sql)
  const meaningful = tokens.filter(({ kind }) => kind !== 'comment')
  const at = tokens.find(({ start, end, kind }) => start < caret && (caret < end || (caret === end && kind !== 'string' && kind !== 'symbol')))
  const before = meaningful.filter(({ end }) => end <= (at?.start ?? caret))
  const tables = findTables(meaningful, sql).map(({ table }) => table)
  const place = { tables, wants: 'any' as const }
  if (at === undefined || at.kind === 'symbol') {
    return { ...place, from: caret, to: caret, typed: '', inside: 'name', wants: findWants(before, meaningful, sql) }
  }
  const source = sql.slice(at.start, at.end)
  // A string whose quote is not closed yet is the rest of the text: what is typed ends at the caret.
  const isOpen = at.kind === 'broken' && source.startsWith("'")
  if ((at.kind === 'string' && source.startsWith("'")) || isOpen) {
    return {
      ...place, from: at.start + 1, to: isOpen ? caret : at.end - 1, typed: sql.slice(at.start + 1, caret),
      inside: findMeaning(before)
    }
  }
  if (at.kind !== 'word' && at.kind !== 'quoted') return null
  return {
    ...place, from: at.start, to: at.end, typed: sql.slice(at.start, caret).replace(/^[`"]/, ''), inside: 'name',
    wants: findWants(before, meaningful, sql)
  }
}

/** Names of the catalog for a place, best first: those that begin with what was typed, then those that contain it. */
export function suggestNames ({ typed, inside, wants, tables }: Place, catalog: Catalog): Suggestion[] {
  if (inside !== 'name') return []
  const named = catalog.tables.filter(({ name }) => tables.includes(name))
  const ofTables = (chosen: readonly Table[]): Suggestion[] =>
    chosen.flatMap(({ name, columns }) => columns.map((column): Suggestion => ({
      text: column.name, kind: 'column', detail: [column.type, column.comment, name].filter((part) => part !== '').join(' · ')
    })))
  if (typeof wants === 'object') return rank(ofTables(catalog.tables.filter(({ name }) => name === wants.table)), typed)
  const offered = catalog.tables.toSorted((one, other) => placeOfTable(one) - placeOfTable(other)).map(({ name, comment }): Suggestion => ({ text: name, kind: 'table', detail: comment }))
  if (wants === 'table') return rank(offered, typed)
  const asked = named.length === 0 ? catalog.tables.filter(({ name }) => name === 'events') : named
  return rank([
    ...ofTables(asked),
    ...FUNCTIONS.map(([text, detail]): Suggestion => ({ text, kind: 'function', detail })),
    ...KEYWORDS.map((text): Suggestion => ({ text, kind: 'keyword', detail: '' })),
    ...offered
  ], typed)
}

/** @returns the text to put between `from` and `to`, and where the caret is then. */
export function applySuggestion ({ text, kind }: Suggestion): { text: string, back: number } {
  if (kind === 'event' || kind === 'property') return { text: text.replaceAll(/[\\']/g, '\\$&'), back: 0 }
  if (kind === 'function') return { text: `${text}()`, back: 1 }
  return { text: kind === 'keyword' || NAME.test(text) ? text : `\`${text.replaceAll(/[\\`]/g, '\\$&')}\``, back: 0 }
}

/** What nearly every question is about comes first. */
const MAIN_TABLES = ['events', 'events_with_person', 'persons', 'groups']

function placeOfTable ({ name }: Table): number {
  const place = MAIN_TABLES.indexOf(name)
  return place === -1 ? MAIN_TABLES.length : place
}

function rank (suggestions: readonly Suggestion[], typed: string): Suggestion[] {
  const wanted = typed.toLowerCase()
  const seen = new Set<string>()
  const unique = suggestions.filter(({ text, kind }) => {
    const key = `${kind} ${text}`
    return !seen.has(key) && seen.add(key) && text.toLowerCase().includes(wanted)
  })
  const begins = ({ text }: Suggestion): boolean => text.toLowerCase().startsWith(wanted)
  return [...unique.filter(begins), ...unique.filter((each) => !begins(each))].slice(0, MAX_SUGGESTIONS)
}

function findWants (before: readonly SqlToken[], tokens: readonly SqlToken[], sql: string): Place['wants'] {
  const last = before.at(-1)
  if (last?.text === 'FROM' || last?.text === 'JOIN' || last?.text === 'DESCRIBE') return 'table'
  const owner = before.at(-2)
  if (last?.text !== '.' || owner === undefined) return 'any'
  const name = textOf(owner, sql)
  const found = findTables(tokens, sql).find(({ table, alias }) => alias === name || table === name)
  return { table: found?.table ?? name }
}

/** Tables after FROM and JOIN with their aliases. */
function findTables (tokens: readonly SqlToken[], sql: string): { table: string, alias: string }[] {
  return tokens.flatMap((token, index) => {
    const name = tokens[index + 1]
    if (!['FROM', 'JOIN'].includes(token.text) || token.kind !== 'word' || name === undefined || !['word', 'quoted'].includes(name.kind)) return []
    // The name of the database, if any, comes before a dot.
    const isFull = tokens[index + 2]?.text === '.'
    const table = isFull ? tokens[index + 3] : name
    let next = index + (isFull ? 4 : 2)
    if (tokens[next]?.text === 'FINAL') next++
    if (tokens[next]?.text === 'AS') next++
    const alias = tokens[next]
    return table === undefined
      ? []
      : [{
          table: textOf(table, sql), alias: alias?.kind === 'word' && !KEYWORDS.includes(alias.text) ? textOf(alias, sql) : ''
        }]
  })
}

function textOf ({ start, end }: SqlToken, sql: string): string {
  return sql.slice(start, end).replaceAll(/^[`"]|[`"]$/g, '')
}

/** What a string stands for, by what is before it. */
function findMeaning (before: readonly SqlToken[]): Place['inside'] {
  // A list: `event IN ('a', 'b')` means the same for each.
  let index = before.length - 1
  while (index > 0 && [',', '('].includes(before[index]?.text ?? '') && !isCall(before, index)) {
    const isList = before[index]?.text === ','
    index--
    if (isList) while (index > 0 && before[index]?.kind === 'string') index--
  }
  const words = before.slice(Math.max(0, index - 3), index + 1).map(({ text }) => text)
  if (words.some((word) => word === 'EVENT') && /^(?:=|IN|EVENT|LIKE|!)$/.test(words.at(-1) ?? '')) return 'event'
  const call = before.findLastIndex(({ text }) => /^JSON(?:EXTRACT|HAS|LENGTH|TYPE|_)/.test(text))
  if (call !== -1 && before.slice(call).every(({ text }) => text !== ')')) return 'property'
  return 'string'
}

function isCall (tokens: readonly SqlToken[], bracket: number): boolean {
  return tokens[bracket]?.text === '(' && /^JSON/.test(tokens[bracket - 1]?.text ?? '')
}

/** Words of ClickHouse's SQL, for colours and completion. */

export const KEYWORDS: readonly string[] = [
  'ALL', 'AND', 'ANTI', 'ANY', 'ARRAY', 'AS', 'ASC', 'ASOF', 'BETWEEN', 'BY', 'CASE', 'CROSS', 'CUBE', 'DAY', 'DESC', 'DESCRIBE', 'DISTINCT', 'ELSE',
  'END', 'EXCEPT', 'EXISTS', 'EXPLAIN', 'FALSE', 'FINAL', 'FROM', 'FULL', 'GLOBAL', 'GROUP', 'HAVING', 'HOUR', 'ILIKE', 'IN', 'INNER',
  'INTERSECT', 'INTERVAL', 'IS', 'JOIN', 'LEFT', 'LIKE', 'LIMIT', 'MINUTE', 'MONTH', 'NOT', 'NULL', 'NULLS', 'OFFSET', 'ON', 'OR', 'ORDER', 'OUTER', 'OVER',
  'PARTITION', 'PREWHERE', 'QUALIFY', 'RIGHT', 'ROLLUP', 'ROWS', 'SAMPLE', 'SECOND', 'SELECT', 'SEMI', 'SETTINGS', 'SHOW', 'TABLES', 'THEN', 'TIES', 'TO', 'TOTALS', 'TRUE',
  'UNION', 'USING', 'WEEK', 'WHEN', 'WHERE', 'WINDOW', 'WITH', 'YEAR', 'FILL', 'STEP'
]

/** Functions that questions about events need most, with their arguments. */
export const FUNCTIONS: readonly [name: string, detail: string][] = [
  ['count', '() or (condition column)'], ['countIf', '(condition)'], ['uniq', '(value): how many different, about'],
  ['uniqExact', '(value): how many different, exactly'], ['uniqIf', '(value, condition)'], ['sum', '(value)'], ['sumIf', '(value, condition)'],
  ['avg', '(value)'], ['min', '(value)'], ['max', '(value)'], ['median', '(value)'], ['quantile', '(level)(value)'], ['quantiles', '(levels)(value)'],
  ['any', '(value)'], ['argMax', '(value, of the greatest)'], ['argMin', '(value, of the least)'], ['groupArray', '(value)'],
  ['groupUniqArray', '(value)'], ['topK', '(n)(value)'], ['windowFunnel', '(seconds)(time, condition, ...)'], ['retention', '(condition, ...)'],
  ['sequenceMatch', "('(?1)(?2)')(time, condition, ...)"],
  ['JSONExtractString', "(properties, 'name')"], ['JSONExtractInt', "(properties, 'name')"], ['JSONExtractFloat', "(properties, 'name')"],
  ['JSONExtractBool', "(properties, 'name')"], ['JSONExtractRaw', "(properties, 'name')"], ['JSONHas', "(properties, 'name')"],
  ['JSONExtractKeys', '(properties)'], ['JSONExtractArrayRaw', "(properties, 'name')"],
  ['toStartOfHour', '(time)'], ['toStartOfDay', '(time, timezone)'], ['toStartOfWeek', '(time, mode, timezone)'], ['toStartOfMonth', '(time, timezone)'],
  ['toStartOfInterval', '(time, INTERVAL 1 hour)'], ['toDate', '(time, timezone)'], ['toDateTime', '(text)'], ['now', '()'], ['today', '()'],
  ['dateDiff', "('unit', from, to)"], ['formatDateTime', "(time, '%Y-%m')"], ['toHour', '(time)'], ['toDayOfWeek', '(time)'],
  ['if', '(condition, then, else)'], ['multiIf', '(condition, then, ..., else)'], ['coalesce', '(value, ...)'], ['ifNull', '(value, else)'],
  ['nullIf', '(value, value)'], ['empty', '(text)'], ['notEmpty', '(text)'], ['length', '(text)'], ['lower', '(text)'], ['upper', '(text)'],
  ['concat', '(text, ...)'], ['substring', '(text, from, length)'], ['replaceOne', '(text, what, with)'], ['splitByChar', "(',', text)"],
  ['match', '(text, regular expression)'], ['extract', '(text, regular expression)'], ['domain', '(url)'], ['path', '(url)'],
  ['toString', '(value)'], ['toInt64', '(value)'], ['toFloat64', '(value)'], ['toInt64OrZero', '(text)'], ['toFloat64OrZero', '(text)'],
  ['round', '(value, digits)'], ['floor', '(value)'], ['arrayJoin', '(array)'], ['arrayMap', '(x -> ..., array)'], ['arrayFilter', '(x -> ..., array)'],
  ['has', '(array, value)'], ['lagInFrame', '(value)'], ['row_number', '()'], ['cityHash64', '(value)']
]
