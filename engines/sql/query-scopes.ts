import { tokenizeSql, unquoteSql } from './clickhouse-sql.ts'

/**
 * A piece of a query. `word` is an unquoted keyword or name, `name` a quoted one, `text` a string literal; both without
 * quotes and escapes.
 */
export interface QueryToken {
  kind: 'word' | 'name' | 'text' | 'number' | 'symbol'
  text: string
}

/**
 * Splits a query that ClickHouse ran into tokens, without its comments. For statistics only: it accepts any text, also
 * one that a log has shortened, and decides nothing about what may run.
 */
export function tokenizeQuery (query: string): QueryToken[] {
  return tokenizeSql(query).flatMap(({ kind, start, end, text }): QueryToken[] => {
    switch (kind) {
      case 'comment': return []
      case 'word': return [{ kind, text: query.slice(start, end) }]
      case 'quoted': return [{ kind: 'name', text: unquoteSql(text) }]
      case 'string': return [{ kind: 'text', text: unquoteSql(text) }]
      case 'number': case 'symbol': return [{ kind, text }]
      // A literal at the end of what the log kept.
      default: return text.startsWith("'") ? [{ kind: 'text', text: unquoteSql(text) }] : []
    }
  })
}

/** One SELECT of a query: what it selects from, and by which names. */
export interface QueryScope {
  parent: QueryScope | undefined
  /** Tables and names of common table expressions after FROM and JOIN. */
  tables: Set<string>
  /** SELECTs in brackets after FROM and JOIN. */
  sources: QueryScope[]
  /** What an alias stands for: a table, or a SELECT in brackets. */
  aliases: Map<string, string | QueryScope>
}

const AFTER_TABLE = new Set(['AS', 'FINAL', 'SAMPLE'])
const CLAUSES = new Set([
  'ANY', 'ALL', 'ANTI', 'SEMI', 'ASOF', 'INNER', 'LEFT', 'RIGHT', 'FULL', 'CROSS', 'GLOBAL', 'JOIN', 'ARRAY', 'ON', 'USING', 'WHERE',
  'PREWHERE', 'GROUP', 'ORDER', 'HAVING', 'LIMIT', 'OFFSET', 'UNION', 'EXCEPT', 'INTERSECT', 'SETTINGS', 'FORMAT', 'WINDOW',
  'QUALIFY', 'FINAL', 'SAMPLE', 'SELECT', 'FETCH', 'INTO', 'AS', 'WITH', 'PASTE', 'PARALLEL'
])

/** The SELECT to which each token of a query belongs. */
export function findScopes (tokens: readonly QueryToken[]): QueryScope[] {
  const createScope = (parent: QueryScope | undefined): QueryScope =>
    ({ parent, tables: new Set(), sources: [], aliases: new Map() })
  let scope = createScope(undefined)
  // One entry an open bracket: the SELECT it began, if it began one.
  const open: (QueryScope | undefined)[] = []
  return tokens.map((token, i) => {
    if (token.text === '(' && token.kind === 'symbol') {
      const begun = isWord(tokens[i + 1], 'SELECT', 'WITH', 'FROM') ? createScope(scope) : undefined
      open.push(begun)
      if (begun !== undefined) {
        if (isWord(tokens[i - 1], 'FROM', 'JOIN')) scope.sources.push(begun)
        const name = tokens[i - 2]
        if (isWord(tokens[i - 1], 'AS') && isName(name)) scope.aliases.set(name.text, begun)
        scope = begun
      }
    } else if (token.text === ')' && token.kind === 'symbol') {
      const ended = open.pop()
      if (ended?.parent !== undefined) {
        scope = ended.parent
        const alias = aliasAt(tokens, i + 1)
        if (alias !== undefined) scope.aliases.set(alias, ended)
      }
    } else if (isWord(token, 'FROM', 'JOIN')) {
      readTable(tokens, i + 1, scope)
    }
    return scope
  })
}

/** `[database .] table [FINAL] [[AS] alias]` */
function readTable (tokens: readonly QueryToken[], at: number, scope: QueryScope): void {
  const [first, point, second] = tokens.slice(at, at + 3)
  if (!isName(first)) return
  const end = point?.text === '.' && isName(second) ? at + 2 : at
  const table = end > at && second !== undefined ? second.text : first.text
  scope.tables.add(table)
  let next = end + 1
  while (isWord(tokens[next], ...AFTER_TABLE) && !isWord(tokens[next], 'AS')) next++
  const alias = aliasAt(tokens, next)
  if (alias !== undefined) scope.aliases.set(alias, table)
}

function aliasAt (tokens: readonly QueryToken[], at: number): string | undefined {
  const name = isWord(tokens[at], 'AS') ? tokens[at + 1] : tokens[at]
  if (!isName(name) || (name.kind === 'word' && CLAUSES.has(name.text.toUpperCase()))) return undefined
  return name.text
}

/** All tables that a SELECT reads rows of, directly or through what stands after its FROM. */
export function tablesOf (scope: QueryScope): Set<string> {
  return collect(scope, new Set())
}

/** The tables that a qualified name (`person.properties`) or a plain one may come from. */
export function resolveTables (scope: QueryScope, qualifier: string | undefined): Set<string> {
  if (qualifier === undefined) return tablesOf(scope)
  for (let at: QueryScope | undefined = scope; at !== undefined; at = at.parent) {
    const source = at.aliases.get(qualifier)
    if (typeof source === 'string') return resolveName(at, source, new Set())
    if (source !== undefined) return tablesOf(source)
  }
  return new Set([qualifier])
}

function collect (scope: QueryScope, seen: Set<QueryScope>): Set<string> {
  // A recursive common table expression reads from itself.
  if (seen.has(scope)) return new Set()
  seen.add(scope)
  const inner = scope.sources.flatMap((source) => [...collect(source, seen)])
  return new Set([...[...scope.tables].flatMap((table) => [...resolveName(scope, table, seen)]), ...inner])
}

/** A name after FROM may be a common table expression of this SELECT or of one around it. */
function resolveName (scope: QueryScope, name: string, seen: Set<QueryScope>): Set<string> {
  for (let at: QueryScope | undefined = scope; at !== undefined; at = at.parent) {
    const source = at.aliases.get(name)
    if (source !== undefined && typeof source !== 'string') return collect(source, seen)
  }
  return new Set([name])
}

export function isWord (token: QueryToken | undefined, ...words: string[]): boolean {
  return token?.kind === 'word' && words.includes(token.text.toUpperCase())
}

function isName (token: QueryToken | undefined): token is QueryToken {
  return token?.kind === 'word' || token?.kind === 'name'
}
