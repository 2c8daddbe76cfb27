import { denied, readOnly } from '../http/query-errors.ts'
import type { Statement } from '../statement/read-statement.ts'
import type { Engine } from '../engine/engine.ts'
import { vetAnalystSetting } from '../engine/profiles.ts'
import type { AllowList } from './allow-list.ts'
import type { CanonicalToken } from './canonical-query.ts'
import { findAggregate, judgeFormatName, judgeNamedByString } from './named-by-string.ts'

/** What the running engine can call. */
export type EngineNames = Pick<Engine, 'functions' | 'tableFunctions'>

/** What a query is judged by; all names in lower case. */
export interface Rules {
  allow: AllowList
  /** What the engine has and the allow-list has not: refused as a call. */
  refusedCalls: ReadonlySet<string>
  /** Likewise, functions only: their bare name may be passed to another function. */
  refusedNames: ReadonlySet<string>
  /** Databases with the owner's tables. */
  ownDatabases: ReadonlySet<string>
  otherDatabases: ReadonlySet<string>
}

export interface Verdict {
  kind: Statement['kind']
  /** Names of databases whose tables are shown through views instead. */
  masked: Set<CanonicalToken>
  /** Clauses of settings, or parts of them, that do not run with the rest: ignored ones, and those in `settings`. */
  removed: Set<CanonicalToken>
  /** Of the closing clause, which concerns the whole query. */
  settings: Map<string, string>
  /** Called functions that neither the engine nor the query defines: allowed if the owner created them. */
  unknownCalls: Set<string>
}

/** Words before a bracket that are no functions. A canonical query has its keywords in capitals. */
const BEFORE_BRACKET = new Set(('ALL AND ARRAY AS AST BETWEEN BY COLUMNS DISTINCT ESTIMATE EXCEPT EXPLAIN FROM HAVING ' +
  'ILIKE IN INTERPOLATE INTERSECT IS JOIN LIKE LIMIT MATERIALIZED NOT OFFSET ON OR OVER PIPELINE PREWHERE QUALIFY ' +
  'REPLACE SELECT SETS STEP STRICT SYNTAX TABLE TO TREE UNION USING WHERE WITH').split(' '))
/** Functions of the grammar, which the engine does not list. */
const GRAMMAR_FUNCTIONS = new Set(['exists', 'grouping', 'untuple'])

const READING_STATEMENTS: Array<[Statement['kind'], RegExp]> = [
  ['select', /^(SELECT|WITH|\() /],
  ['show', /^EXPLAIN ((AST|SYNTAX|PIPELINE|ESTIMATE|QUERY TREE) )?(\w+ = \S+ (, )?)*(SELECT|WITH|\() /],
  ['show', /^DESCRIBE TABLE /],
  ['show', /^EXISTS (TEMPORARY )?(TABLE|DATABASE|VIEW|DICTIONARY) /],
  ['show', /^SHOW (EXTENDED )?(FULL )?(TABLES|COLUMNS|INDEXES|DATABASES|DICTIONARIES|FUNCTIONS|SETTINGS|SETTING|ENGINES) /],
  ['show', /^SHOW CREATE (TABLE|VIEW|DICTIONARY|DATABASE) /],
  ['session', /^USE /]
]

export function makeRules (allow: AllowList, engine: EngineNames): Omit<Rules, 'ownDatabases' | 'otherDatabases'> {
  const functions = engine.functions.map(lower).filter((name) => !isAllowedFunction(name, allow))
  const tableFunctions = engine.tableFunctions.map(lower).filter((name) => !allow.tableFunctions.has(name))
  return {
    allow,
    refusedCalls: new Set([...functions, ...tableFunctions, ...allow.refusedFunctions]),
    refusedNames: new Set([...functions, ...allow.refusedFunctions])
  }
}

/**
 * Judges a canonical query, name by name, whatever the place a name stands in: what may be a function somewhere is
 * judged as one everywhere.
 *
 * @throws {QueryError} 164 for a statement that does not only read, 497 for what is not allowed.
 */
export function judgeQuery (tokens: readonly CanonicalToken[], rules: Rules): Verdict {
  const kind = readKind(tokens)
  const verdict: Verdict = { kind, masked: new Set(), removed: new Set(), settings: new Map(), unknownCalls: new Set() }
  const aliases = new Set(tokens.filter((token, i) => isName(token) && isWord(tokens[i - 1], 'AS')).map(({ text }) => text))
  let depth = 0
  tokens.forEach((token, i) => {
    if (token.kind === 'symbol') depth += token.text === '(' ? 1 : token.text === ')' ? -1 : 0
    judgeNamedByString(tokens, i, rules.allow)
    if (!isName(token)) return
    if (isWord(token, 'SETTINGS') && tokens[i - 1]?.text !== '.' && !(i === 1 && isWord(tokens[0], 'SHOW'))) judgeSettings(tokens, i, { allow: rules.allow, verdict, isOutermost: depth === 0 })
    // A column may be called FORMAT, too.
    const next = tokens[i + 1]
    if (isWord(token, 'FORMAT') && next !== undefined && isName(next)) judgeFormatName(next.text, rules.allow)
    if (isWord(token, 'OUTFILE') && isWord(tokens[i - 1], 'INTO')) throw denied('INTO OUTFILE')
    if (isWord(token, 'WITH') && isWord(tokens[i - 1], 'PARALLEL')) throw denied('PARALLEL WITH')
    judgeName(tokens, i, { rules, verdict, aliases })
  })
  return verdict
}

function readKind (tokens: readonly CanonicalToken[]): Statement['kind'] {
  const words = tokens.map(({ kind, text }) => kind === 'quoted' ? '`' : text).join(' ') + ' '
  const kind = READING_STATEMENTS.find(([, start]) => start.test(words))?.[0]
  if (kind === undefined || tokens.some((token) => isWord(token, 'INSERT'))) throw readOnly()
  return kind
}

interface Judging {
  rules: Rules
  verdict: Verdict
  aliases: ReadonlySet<string>
}

function judgeName (tokens: readonly CanonicalToken[], i: number, { rules, verdict, aliases }: Judging): void {
  const token = tokens[i]!
  const [before, after] = [tokens[i - 1], tokens[i + 1]]
  const name = lower(token.text)
  const isQualified = before?.text === '.' && before.kind === 'symbol'
  const isCall = after?.text === '(' || (isWord(before, 'APPLY') && after?.text !== '-')
  if (!isQualified && rules.refusedNames.has(name)) throw denied(`function ${token.text}`)
  if (isCall && !(token.kind === 'word' && BEFORE_BRACKET.has(token.text))) {
    if (isQualified || rules.refusedCalls.has(name)) throw denied(`function ${token.text}`)
    const isKnown = isAllowedFunction(name, rules.allow) || rules.allow.tableFunctions.has(name)
    if (!isKnown && !aliases.has(token.text) && !isColumnList(tokens, i)) verdict.unknownCalls.add(token.text)
  }
  if (!isQualified) judgeDatabase(tokens, i, { rules, verdict })
}

/** `WITH a(x, y) AS (...)`: names of columns, no call. */
function isColumnList (tokens: readonly CanonicalToken[], i: number): boolean {
  let close = i + 1
  while (close < tokens.length && !(tokens[close]?.kind === 'symbol' && tokens[close]?.text === ')')) close++
  return isWord(tokens[close + 1], 'AS') && tokens[close + 2]?.text === '('
}

/** Every name that may be one of a database, and the table behind it. */
function judgeDatabase (tokens: readonly CanonicalToken[], i: number, { rules, verdict }: Omit<Judging, 'aliases'>): void {
  const token = tokens[i]!
  // A quoted name with a point in it is one name for the engine; judged as the two that it looks like.
  const [database, ...rest] = lower(token.text).split('.') as [string, ...string[]]
  const next = tokens[i + 1]?.text === '.' ? tokens[i + 2] : undefined
  const table = rest[0] ?? (next === undefined ? undefined : lower(next.text))
  if (verdict.kind === 'session' && i > 0 && !rules.ownDatabases.has(database)) throw denied(`database ${database}`)
  if (!rules.otherDatabases.has(database)) return
  if (database === 'system' || database === 'information_schema') {
    const { informationSchema, maskedSystemTables, systemTables } = rules.allow
    if (table === undefined || (database === 'system' ? systemTables : informationSchema).has(table)) return
    const isMasked = database === 'system' && rest.length === 0 && maskedSystemTables.has(table)
    if (!isMasked) throw denied(`${database}.${table}`)
    verdict.masked.add(token)
  } else if (table !== undefined || verdict.kind !== 'select') {
    throw denied(`database ${database}`)
  }
}

function judgeSettings (
  tokens: readonly CanonicalToken[], at: number,
  { allow, verdict, isOutermost }: { allow: AllowList, verdict: Verdict, isOutermost: boolean }
): void {
  const { removed, settings } = verdict
  const isClosing = isOutermost && !isFollowed(tokens, at)
  let kept = at
  for (let i = at + 1; ; i += 4) {
    const setting = tokens.slice(i, i + 4)
    const [name, equals, value, comma] = setting
    const isLiteral = value?.kind === 'number' || value?.kind === 'string' || isWord(value, 'true') || isWord(value, 'false')
    if (name?.kind !== 'word' || equals?.text !== '=' || !isLiteral) throw denied('SETTINGS other than name = value')
    const isLast = comma?.text !== ','
    const wanted = value!.text.replace(/^'(.*)'$/s, '$1')
    const isIgnored = allow.ignoredSettings.has(name.text)
    // The engine itself does not look at clauses of subqueries.
    if (!isIgnored && vetAnalystSetting(allow, name.text, wanted) !== wanted) throw denied(`${name.text} above its limit`)
    if (isIgnored || (isClosing && /^[\x20-\x5b\x5d-\x7e]*$/.test(wanted))) {
      if (!isIgnored) settings.set(name.text, wanted)
      for (const token of isLast ? setting.slice(0, 3) : setting) removed.add(token)
      // The comma before the last one, or the word of a clause of which nothing is left.
      if (isLast) removed.add(tokens[kept]!)
    } else {
      kept = i + 3
    }
    if (isLast) return
  }
}

/** Whether a clause stands in no bracket, and nothing but a format comes after it. */
export function closesQuery (tokens: readonly CanonicalToken[], at: number): boolean {
  const symbols = tokens.slice(0, at).filter(({ kind }) => kind === 'symbol').map(({ text }) => text)
  const depth = symbols.filter((text) => text === '(').length - symbols.filter((text) => text === ')').length
  return depth === 0 && !isFollowed(tokens, at)
}

/** Whether another query comes behind. */
function isFollowed (tokens: readonly CanonicalToken[], at: number): boolean {
  return tokens.some((token, i) => i >= at && ['UNION', 'INTERSECT', 'EXCEPT'].some((word) => isWord(token, word)))
}

function isAllowedFunction (name: string, allow: AllowList): boolean {
  return allow.functions.has(name) || GRAMMAR_FUNCTIONS.has(name) || findAggregate(name, allow) !== undefined
}

function isName (token: CanonicalToken): boolean {
  return token.kind === 'word' || token.kind === 'quoted'
}

function isWord (token: CanonicalToken | undefined, text: string): boolean {
  return token?.kind === 'word' && token.text === text
}

function lower (text: string): string {
  return text.toLowerCase()
}
