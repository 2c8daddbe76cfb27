import { FrontError } from '../errors.ts'
import { type Token } from '../sql/lex-sql.ts'
import { quoteIdentifier } from '../sql/quote-sql.ts'
import { hasSequence, readStatement, type Statement } from '../sql/read-statement.ts'

/**
 * What the engine would let a read-only session do although it reaches beyond the tables, and what is done about it.
 *
 * | reach | answer |
 * |---|---|
 * | writes, definitions, changes of settings, most table functions | the engine, by `readonly = 1` |
 * | KILL, BACKUP, SYSTEM, CHECK and whatever else is no question | refused here: only questions pass |
 * | `DESCRIBE url(...)` and other table functions in places that `readonly` forgets | refused here |
 * | the function `file`, which reads any file, also as `arrayMap(file, ...)`; functions that call out | refused here |
 * | `system` tables that show paths, other people's queries or the machine | refused here, or shown without paths |
 * | INTO OUTFILE | refused by `read-statement.ts`, and again here whatever the lexer thought |
 */
export type GuardAnalyst = (statement: Statement, params: ReadonlyMap<string, string>) => Statement

/** Table functions that read nothing but their arguments and the tables named in them. */
const HARMLESS_TABLE_FUNCTIONS = new Set([
  'format', 'fuzzjson', 'fuzzquery', 'generate_series', 'generaterandom', 'generateseries', 'null', 'numbers',
  'numbers_mt', 'primes', 'sqlstandardvalues', 'values', 'view', 'viewifpermitted', 'zeros', 'zeros_mt'
])

/** Functions that read files or call out of the machine; refused wherever the name stands, as it may be passed on. */
const REACHING_FUNCTIONS = /^(file|reversednsquery|ai(classify|generate|embed|extract|translate)|catboostevaluate)$/

/** System tables that clients and tools need and that tell nothing of the machine. */
const OPEN_SYSTEM_TABLES = new Set([
  'aggregate_function_combinators', 'codecs', 'collations', 'columns', 'completions', 'constraints', 'contributors',
  'current_roles', 'data_skipping_index_types', 'data_skipping_indices', 'data_type_families', 'database_engines',
  'dictionaries', 'documentation', 'enabled_roles', 'formats', 'functions', 'keywords', 'licenses', 'numbers',
  'numbers_mt', 'one', 'projections', 'role_grants', 'settings', 'table_engines', 'table_functions', 'time_zones',
  'tokenizers', 'unicode', 'zeros', 'zeros_mt'
])

/** System tables that are shown through views without their paths; see `front-database.ts`. */
const VEILED_SYSTEM_TABLES = new Set(['databases', 'parts', 'tables'])

/** Databases an analyst may not make current: every name in them would have to be judged. */
const CLOSED_DATABASES = new Set(['system', 'millrace_front'])

/** @param tableFunctions  Names of all table functions the engine has. */
export function createGuardAnalyst (tableFunctions: Iterable<string>): GuardAnalyst {
  const reaching = new Set([...tableFunctions].map((name) => name.toLowerCase()))
  for (const name of HARMLESS_TABLE_FUNCTIONS) reaching.delete(name)

  return function guardAnalyst (statement, params) {
    if (statement.kind === 'command' || statement.tokens[0]!.text === 'CHECK') throw readOnly()
    if (hasSequence(statement.tokens, 'SHOW', 'PROCESSLIST')) throw denied('SHOW PROCESSLIST')
    const tokens = resolveIdentifiers(statement, params)
    const names = tokens.map(nameOf)
    const edits: Edit[] = []
    tokens.forEach((token, i) => {
      const name = names[i]
      if (name === undefined) return
      if (reaching.has(name) && tokens[i + 1]?.text === '(') throw denied(`function ${name}`)
      if (REACHING_FUNCTIONS.test(name) && tokens[i - 1]?.text !== '.') throw denied(`function ${name}`)
      if (names[0] === 'use') guardAnalystDatabase(name)
      if (tokens[i + 1]?.text === '.' && isVeiled(name, names[i + 2])) edits.push({ token, text: 'millrace_front' })
    })
    edits.push(...tokens.filter(mentionsFile).map(spellOut))
    return refuseKeywords(edits.length === 0 ? statement : readStatement(applyEdits(statement.sql, edits)))
  }
}

/** @throws {FrontError} 497 for a database whose tables an analyst may only name in full. */
export function guardAnalystDatabase (name: string): void {
  if (CLOSED_DATABASES.has(name.toLowerCase())) throw denied(`database ${name} as the current one`)
}

/**
 * Whether the table is one of those that are shown without paths.
 *
 * @throws {FrontError} 497 for a table that is not shown at all.
 */
function isVeiled (database: string, table: string | undefined): boolean {
  if (database === 'millrace_front') throw denied('database millrace_front')
  if (database !== 'system' || table === undefined || OPEN_SYSTEM_TABLES.has(table)) return false
  if (!VEILED_SYSTEM_TABLES.has(table)) throw denied(`system.${table}`)
  return true
}

/** Puts the value in the place of every `{name:Identifier}`, as the engine will do. */
function resolveIdentifiers (statement: Statement, params: ReadonlyMap<string, string>): Token[] {
  const tokens = [...statement.tokens]
  for (let i = 0; i < tokens.length; i++) {
    const [open, name, colon, type, close] = tokens.slice(i, i + 5)
    if (open?.text !== '{' || colon?.text !== ':' || type?.text !== 'IDENTIFIER' || close?.text !== '}') continue
    const value = params.get(statement.sql.slice(name!.start, name!.end)) ?? ''
    tokens.splice(i, 5, { kind: 'quoted', start: open.start, end: close.end, text: quoteIdentifier(value) })
  }
  return tokens
}

/** The name a token stands for, in lower case; undefined for what is no name. */
function nameOf (token: Token): string | undefined {
  if (token.kind === 'word') return token.text.toLowerCase()
  if (token.kind !== 'quoted') return undefined
  const quote = token.text.at(-1)!
  return token.text.slice(1, -1).replaceAll(quote + quote, quote).replace(/\\(.)/gs, '$1').toLowerCase()
}

interface Edit {
  token: Token
  text: string
}

function applyEdits (sql: string, edits: Edit[]): string {
  let text = ''
  let at = 0
  for (const edit of edits.toSorted((a, b) => a.token.start - b.token.start)) {
    text += sql.slice(at, edit.token.start) + edit.text
    at = edit.token.end
  }
  return text + sql.slice(at)
}

const FILE_KEYWORD = /(out|in)(f)(ile)/gi

function mentionsFile (token: Token): boolean {
  return token.text.search(FILE_KEYWORD) !== -1
}

/**
 * The engine obeys OUTFILE and INFILE without asking for rights. Names and literals that contain them are written with
 * an escape, so that they cannot be keywords even where the engine cuts the text into other tokens than we do.
 */
function spellOut (token: Token): Edit {
  const quoted = token.kind === 'word' ? quoteIdentifier(token.text.toLowerCase()) : token.text
  if (!/^['"`]/.test(quoted)) throw denied('INTO OUTFILE')
  const text = quoted.replace(FILE_KEYWORD, (_, start: string, f: string, end: string) => `${start}\\x${f === 'f' ? 66 : 46}${end}`)
  return { token, text }
}

function refuseKeywords (statement: Statement): Statement {
  if (statement.sql.search(FILE_KEYWORD) !== -1) throw denied('INTO OUTFILE')
  return statement
}

function readOnly (): FrontError {
  return new FrontError(164, 'analyst: Cannot execute query in readonly mode')
}

function denied (what: string): FrontError {
  return new FrontError(497, `analyst: Not enough privileges to use ${what}`)
}
