import { findScopes, isWord, type QueryScope, type QueryToken, resolveTables, tokenizeQuery } from './query-scopes.ts'

/** Whose property it is. */
export type PropertyKind = 'event' | 'person' | 'group'

/** A property that a query takes out of a column `properties`. */
export interface PropertyRead {
  property: string
  kinds: PropertyKind[]
}

/** What a SELECT names, of what Millrace has definitions for. */
export interface NamesInQuery {
  /** Tables and views of ours that it reads. */
  tables: Set<string>
  /** String literals, without those that are names of properties. */
  texts: Set<string>
  /** Properties read by functions for JSON, each once. */
  properties: PropertyRead[]
  /** Names of any kind that may be columns. */
  columns: Set<string>
  /** Projects that it compares `project_id` with; undefined when it names none, and so reads all. */
  projects: Set<number> | undefined
}

/** Tables whose properties are told apart. Looked up by whatever stands behind FROM. */
const KINDS: ReadonlyMap<string, PropertyKind> = new Map([
  ['events', 'event'], ['events_with_person', 'event'], ['persons', 'person'], ['groups', 'group']
])

const JSON_FUNCTION = /^(?:JSON|simpleJSON|visitParam)\w+$/i
const JSON_PATH_FUNCTION = /^JSON_(?:VALUE|QUERY|EXISTS)$/i
/** The first step of a path: `$.plan`, `$."plan"`, `$['plan']`. */
const FIRST_STEP = /^\$(?:\.([\w$]+)|\.?\[?["']((?:[^"'\\]|\\.)+)["']\]?)/

/**
 * Finds what a SELECT names. By its text alone, so it is exact about what stands there and knows nothing of what it
 * meant: a literal `'free'` is the event `free` also when it is compared with something else.
 */
export function findNames (query: string): NamesInQuery {
  const tokens = tokenizeQuery(query)
  const scopes = findScopes(tokens)
  const propertyTokens = new Set<QueryToken>()
  const reads = new Map<string, Set<PropertyKind>>()
  const names: NamesInQuery = {
    tables: new Set(), texts: new Set(), properties: [], columns: new Set(), projects: undefined
  }
  for (const [i, token] of tokens.entries()) {
    const scope = scopes[i]
    if (token.kind === 'word' && scope !== undefined && tokens[i + 1]?.text === '(' && JSON_FUNCTION.test(token.text)) {
      const read = readJsonCall(tokens, i)
      if (read === undefined) continue
      propertyTokens.add(read.token)
      const kinds = kindsOf(scope, read.qualifier)
      if (kinds.length > 0) reads.set(read.property, new Set([...reads.get(read.property) ?? [], ...kinds]))
    } else if (token.kind === 'text' && !propertyTokens.has(token)) {
      names.texts.add(token.text)
    } else if (isColumn(token, tokens[i - 1], tokens[i + 1])) {
      names.columns.add(token.text)
      if (token.text === 'project_id') readProjects(tokens, i + 1, names)
    }
  }
  for (const scope of new Set(scopes)) {
    for (const table of scope.tables) names.tables.add(table)
  }
  names.properties = [...reads].map(([property, kinds]) => ({ property, kinds: [...kinds] }))
  return names
}

/** A name that is neither a function nor given just here. */
function isColumn ({ kind }: QueryToken, before: QueryToken | undefined, after: QueryToken | undefined): boolean {
  return (kind === 'word' || kind === 'name') && after?.text !== '(' && !isWord(before, 'AS')
}

/** `JSONExtractString(<something with properties>, 'plan', ...)`: the literal after the first argument. */
function readJsonCall (
  tokens: readonly QueryToken[], at: number
): { token: QueryToken, property: string, qualifier: string | undefined } | undefined {
  let depth = 0
  let column = -1
  for (let i = at + 1, token = tokens[i]; token !== undefined; token = tokens[++i]) {
    const { kind, text } = token
    if (kind === 'symbol' && '([{'.includes(text)) depth++
    if (kind === 'symbol' && ')]}'.includes(text) && --depth === 0) return undefined
    if ((kind === 'word' || kind === 'name') && text === 'properties') column = i
    if (kind !== 'symbol' || text !== ',' || depth !== 1) continue
    const literal = tokens[i + 1]
    if (column === -1 || literal?.kind !== 'text') return undefined
    const path = JSON_PATH_FUNCTION.test(tokens[at]?.text ?? '') ? FIRST_STEP.exec(literal.text) : undefined
    const property = path === undefined ? literal.text : path?.[1] ?? path?.[2]
    if (property === undefined) return undefined
    const qualifier = tokens[column - 1]?.text === '.' ? tokens[column - 2]?.text : undefined
    return { token: literal, property, qualifier }
  }
  return undefined
}

function kindsOf (scope: QueryScope, qualifier: string | undefined): PropertyKind[] {
  return [...new Set([...resolveTables(scope, qualifier)].flatMap((table) => KINDS.get(table) ?? []))]
}

/** `project_id = 1`, `project_id IN (1, 2)`. */
function readProjects (tokens: readonly QueryToken[], at: number, names: NamesInQuery): void {
  let next = at
  if (tokens[next]?.text === '=' || isWord(tokens[next], 'IN')) {
    while (next < tokens.length && (tokens[next]?.text === '=' || isWord(tokens[next], 'IN') || tokens[next]?.text === '(')) next++
    for (let token = tokens[next]; token?.kind === 'number'; next += 2, token = tokens[next]) {
      names.projects ??= new Set()
      names.projects.add(Number(token.text))
      if (tokens[next + 1]?.text !== ',') break
    }
  }
}
