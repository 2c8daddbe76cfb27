import type { SessionPool } from '../engine/session-pool.ts'
import { denied, readOnly, unknownFunction } from '../http/query-errors.ts'
import { readStatement, type Statement } from '../statement/read-statement.ts'
import type { AllowList } from './allow-list.ts'
import {
  canonicalize, type CanonicalToken, findOwnersFunctions, lexCanonical, writeToken, writeTokens
} from './canonical-query.ts'
import { boundCosts } from './bound-costs.ts'
import { closesQuery, type EngineNames, judgeQuery, makeRules, type Rules } from './judge-query.ts'
import { findClose, judgeFormatName } from './named-by-string.ts'
import { quoteString, unquoteSql } from '../statement/sql-lexer.ts'

/** What is judged: a statement, with what its request adds to it. */
interface AnalystQuery {
  statement: Statement
  params: ReadonlyMap<string, string>
  /** The current database of the session in which it will run. */
  database: string
  /** Used when the statement names none. */
  defaultFormat: string | undefined
  /** Fires when nobody waits for the answer any more. */
  signal: AbortSignal
}

/** What runs in the place of an analyst's statement. */
interface GuardedStatement {
  statement: Statement
  /** Of its closing SETTINGS clause, vetted. */
  settings: ReadonlyMap<string, string>
}

export type GuardAnalyst = (query: AnalystQuery) => Promise<GuardedStatement>

/** Analysts name tables of these databases in full (`system.tables`), so that unqualified names need no judging. */
const CLOSED_DATABASES = new Set(['system', 'information_schema', 'chdb_server'])

/** What may follow a condition in a query, or begin another one. */
const BEYOND_CONDITION = new Set(['SELECT', 'FROM', 'GROUP', 'HAVING', 'WINDOW', 'QUALIFY', 'ORDER', 'LIMIT', 'OFFSET', 'FETCH', 'SETTINGS', 'UNION', 'EXCEPT', 'INTERSECT', 'INTO', 'FORMAT'])

/**
 * Makes the guard that lets an analyst's query through only when all that it names is known to be harmless. The README
 * says how.
 *
 * @param pool  Sessions for the guard's own queries.
 * @throws {QueryError} by the guard: 164 for a statement that does not only read, 46 for a function that there is not,
 *   497 for what is not allowed or not understood.
 */
export function createGuardAnalyst (pool: SessionPool, engine: EngineNames, allow: AllowList): GuardAnalyst {
  const rules = makeRules(allow, engine)

  return async function guardAnalyst ({ statement, params, database, defaultFormat, signal }) {
    const isEscaped = statement.tokens.some(({ kind, text }) => kind === 'quoted' && text.includes('\\'))
    if (isEscaped) throw denied('backslash escapes in quoted names')
    if (defaultFormat !== undefined) judgeFormatName(defaultFormat, allow)
    // First of all, so that a typing error is told as one.
    const canonical = await canonicalize(pool, statement.sql, signal)
    if (statement.kind === 'command' || statement.tokens[0]!.text === 'CHECK') throw readOnly()
    const ownDatabases = lowerSet(canonical.ownDatabases.filter((name) => name !== 'chdb_server'))
    const otherDatabases = lowerSet(['chdb_server', ...canonical.otherDatabases])
    if (otherDatabases.has(database.toLowerCase())) throw denied(`database ${database} as the current one`)

    const { tokens: unfiltered, filters } = takeTableFilters(lexCanonical(canonical.text))
    const tokens = fillIdentifiers(unfiltered, params)
    const around = { ...rules, ownDatabases, otherDatabases }
    const verdict = judgeQuery(tokens, around)
    const { kind, masked, removed, settings, unknownCalls } = verdict
    if (unknownCalls.size > 0) {
      const owners = await findOwnersFunctions(pool, [...unknownCalls], signal)
      for (const name of unknownCalls) if (!owners.includes(name)) throw unknownFunction(name)
    }
    const kept = boundCosts(tokens.filter((token) => !removed.has(token)), allow.bounds)
    for (const [name, value] of kept.settings) settings.set(name, value)
    if (filters.length > 0) settings.set(SETTING, await judgeFilters(filters, around, signal))
    return { statement: { ...readStatement(writeSql(kept.tokens, masked)), kind }, settings }
  }

  /**
   * The value of the setting with conditions as the engine understood them; each is judged like the WHERE of a query.
   *
   * Only tables that an analyst may name anyway are filtered: a condition on another one, as behind a view of ours,
   * would tell what is in it.
   */
  async function judgeFilters (filters: TableFilters, rules: Rules, signal: AbortSignal): Promise<string> {
    const judged: string[] = []
    for (const { table, condition } of filters) {
      const [, database = '', name] = /^(?:(\w+)\.)?(\w+)$/.exec(table) ?? []
      const isOwn = name !== undefined && (database === '' || rules.ownDatabases.has(database.toLowerCase()))
      if (!isOwn) throw denied(`filters of table ${table}`)
      const tokens = lexCanonical((await canonicalize(pool, `SELECT 1 WHERE (${condition}\n)`, signal)).text)
      // A text that closes a bracket of ours and opens another, `0) OR (1`, is no condition: it fits only one of these.
      await canonicalize(pool, `SELECT 1 WHERE [${condition}\n]`, signal)
      const { masked, settings, unknownCalls } = judgeQuery(tokens, rules)
      const bounded = boundCosts(tokens, allow.bounds)
      const isPlain = masked.size + settings.size + unknownCalls.size + bounded.settings.length === 0 &&
        tokens.every((token, i) => i < 3 || isOfCondition(token, tokens[i - 1]))
      if (!isPlain) throw denied(`more than a plain condition in a filter of table ${table}`)
      judged.push(`${quoteString(table)}:${quoteString(writeSql(tokens.slice(3), masked))}`)
    }
    return `{${judged.join()}}`
  }
}

/**
 * The database in which an analyst's request runs. The engine's `default` serves files as tables of their names; an
 * analyst begins where the owner's tables are.
 *
 * @param own  The database of the owner's tables.
 * @throws {QueryError} 497 for one whose tables an analyst may only name in full.
 */
export function analystDatabase (wanted: string, own: string): string {
  if (wanted === 'default') return own
  if (CLOSED_DATABASES.has(wanted.toLowerCase())) throw denied(`database ${wanted} as the current one`)
  return wanted
}

/** `a IS DISTINCT FROM b` compares; every other clause makes a query of the condition. */
function isOfCondition ({ kind, text }: CanonicalToken, before: CanonicalToken | undefined): boolean {
  const isClause = kind === 'word' && BEYOND_CONDITION.has(text) && !(text === 'FROM' && before?.text === 'DISTINCT')
  return !isClause && text !== '{'
}

/** Types of values; of names there is `Identifier`, written so. A state names a function. */
const VALUE_TYPE = /^(?!(?:identifier|aggregatefunction)$)\w+$/i
// eslint-disable-next-line no-control-regex
const PLAIN_NAME = /^[^`\\\x00-\x1f\x7f]+$/

/**
 * Puts the value in the place of every `{name:Identifier}`, and takes every other parameter out of the judgement: its
 * value can only be a value.
 *
 * @throws {QueryError} 497 for a value with an escape or a quote in it.
 */
function fillIdentifiers (tokens: readonly CanonicalToken[], params: ReadonlyMap<string, string>): CanonicalToken[] {
  const filled: CanonicalToken[] = []
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!
    if (token.text !== '{' || token.kind !== 'symbol') { filled.push(token); continue }
    const close = findClose(tokens, i)
    const end = tokens[close]?.end
    const [, name, colon, type, ...rest] = tokens.slice(i, close + 1)
    if (end === undefined || name === undefined || colon?.text !== ':' || type === undefined) throw denied('a { that does not begin a parameter')
    const parameter = { ...token, end }
    if (type.text === 'Identifier' && rest.length === 1) {
      const value = params.get(name.text) ?? ''
      if (!PLAIN_NAME.test(value)) throw denied('backslash escapes in quoted names')
      filled.push({ ...parameter, kind: 'quoted', text: Buffer.from(value).toString('latin1') })
    } else if ([type, ...rest].every(({ kind, text }) => kind !== 'quoted' && (kind !== 'word' || VALUE_TYPE.test(text)))) {
      filled.push({ ...parameter, kind: 'number', text: writeTokens(tokens.slice(i, close + 1)) })
    } else {
      throw denied('a parameter type that is not a value type')
    }
    i = close
  }
  return filled
}

/** What runs, as it was judged. */
function writeSql (tokens: readonly CanonicalToken[], masked: ReadonlySet<CanonicalToken>): string {
  return writeTokens(tokens, (token) => masked.has(token) ? 'chdb_server' : writeToken(token))
}

function lowerSet (names: readonly string[]): Set<string> {
  return new Set(names.map((name) => name.toLowerCase()))
}

/** Where tools such as Grafana put what somebody filters by: conditions by table, in the closing clause. */
const SETTING = 'additional_table_filters'
/** Each is put to the engine twice. */
const MAX_FILTERS = 100

/** Conditions that are added to every reading of a table. */
type TableFilters = Array<{ table: string, condition: string }>

/**
 * Takes the filters by table out of a query.
 *
 * @returns the tokens without that setting, and without a SETTINGS of which nothing is left.
 * @throws {QueryError} 497 for filters of a subquery, and for anything but a map of literals.
 */
function takeTableFilters (tokens: readonly CanonicalToken[]) {
  const at = tokens.findIndex(({ kind, text }, i) => kind === 'word' && text === SETTING && tokens[i + 1]?.text === '=')
  const filters: TableFilters = []
  if (at === -1) return { tokens, filters }
  const clause = tokens.findLastIndex(({ kind, text }, i) => i < at && kind === 'word' && text === 'SETTINGS')
  const end = tokens.findIndex(({ kind, text }, i) => i > at && kind === 'symbol' && text === '}')
  if (clause === -1 || !closesQuery(tokens, clause) || tokens[at + 2]?.text !== '{' || end === -1) throw denied(`${SETTING} here`)
  for (let i = at + 3; i < end; i += 4) {
    const [table, colon, condition, comma] = tokens.slice(i, i + 4)
    const isPair = table?.kind === 'string' && colon?.text === ':' && condition?.kind === 'string' && (comma?.text === ',' || i + 3 === end)
    if (!isPair || filters.length === MAX_FILTERS) throw denied(`${SETTING} other than a map of at most ${MAX_FILTERS} literals`)
    filters.push({ table: readLiteral(table), condition: readLiteral(condition) })
  }
  // With the comma behind it, or the one before; or with the word of the clause.
  const isLast = tokens[end + 1]?.text !== ','
  const [from, to] = isLast ? [at - 1, end + 1] : [at, end + 2]
  if (tokens.some(({ text }, i) => i >= to && text === SETTING)) throw denied(`${SETTING} more than once`)
  return { tokens: [...tokens.slice(0, from), ...tokens.slice(to)], filters }
}

function readLiteral ({ text }: CanonicalToken): string {
  return unquoteSql(Buffer.from(text, 'latin1').toString())
}
