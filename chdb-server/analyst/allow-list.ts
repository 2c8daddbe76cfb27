import { readFileSync } from 'node:fs'
import path from 'node:path'

/** How a function is bounded (`bound-costs.ts`); the functions are in `allow-list.txt`. */
export type BoundKind = typeof BOUND_KINDS[number]
const BOUND_KINDS = ['texts', 'arrays', 'patterns', 'steps', 'series', 'first', 'second', 'range', 'blocks'] as const

/**
 * What an analyst's query may name: `allow-list.txt` for what the engine has by the hundred, and the short lists here.
 * All names are in lower case, as the engine takes many of them in any case.
 */
export interface AllowList {
  functions: ReadonlySet<string>
  aggregateFunctions: ReadonlySet<string>
  settings: ReadonlySet<string>
  /** Taken and left out: they only tune, and many clients always send some. */
  ignoredSettings: ReadonlySet<string>
  formats: ReadonlySet<string>
  /** Allowed, at a cost that is bounded. */
  bounds: ReadonlyMap<string, BoundKind>
  /** Read and refused: a function outside of both lists is one that nobody has read about yet. */
  refusedFunctions: ReadonlySet<string>
}

const FILE = path.join(import.meta.dirname, 'allow-list.txt')

/** @throws when the file has a line that is none of its kinds. */
export function loadAllowList (): AllowList {
  const lists = new Map<string, Set<string>>()
  let current: Set<string> | undefined
  for (const line of readFileSync(FILE, 'utf8').split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const head = /^((?:allow|ignore|refuse) (?:aggregate functions|functions|settings|formats)|bound \w+): /.exec(line)
    if (head?.[1] !== undefined) lists.set(head[1], current = lists.get(head[1]) ?? new Set())
    else if (!line.startsWith('  ') || current === undefined) throw new Error(`${FILE}: not understood: ${line}`)
    else for (const name of line.trim().split(' ')) current.add(name.toLowerCase())
  }
  const list = (kind: string): Set<string> => lists.get(kind) ?? new Set()
  return {
    functions: list('allow functions'),
    aggregateFunctions: list('allow aggregate functions'),
    settings: list('allow settings'),
    ignoredSettings: list('ignore settings'),
    formats: list('allow formats'),
    bounds: new Map(BOUND_KINDS.flatMap((kind) => [...list(`bound ${kind}`)].map((name) => [name, kind] as const))),
    refusedFunctions: list('refuse functions')
  }
}

/** Table functions that read nothing but their arguments and the tables named in them. */
export const TABLE_FUNCTIONS: ReadonlySet<string> = new Set([
  'format', 'generate_series', 'generaterandom', 'generateseries', 'null', 'numbers', 'numbers_mt', 'primes',
  'sqlstandardvalues', 'values', 'view', 'viewifpermitted', 'zeros', 'zeros_mt'
])

/** System tables that clients and tools need and that tell nothing of the machine or of other people. */
export const SYSTEM_TABLES: ReadonlySet<string> = new Set([
  'aggregate_function_combinators', 'codecs', 'collations', 'columns', 'completions', 'constraints', 'contributors',
  'current_roles', 'data_skipping_index_types', 'data_skipping_indices', 'data_type_families', 'database_engines',
  'dictionaries', 'documentation', 'enabled_roles', 'formats', 'functions', 'keywords', 'licenses', 'numbers',
  'numbers_mt', 'one', 'primes', 'projections', 'role_grants', 'settings', 'table_engines', 'table_functions',
  'time_zones', 'tokenizers', 'unicode', 'zeros', 'zeros_mt'
])

/** System tables shown through views: without paths (`server-database.ts`), what analysts run (`process-list.ts`). */
export const MASKED_SYSTEM_TABLES: ReadonlySet<string> = new Set(['databases', 'parts', 'processes', 'tables'])

/** The standard's views of the same, all harmless. */
export const INFORMATION_SCHEMA: ReadonlySet<string> = new Set([
  'character_sets', 'collations', 'columns', 'engines', 'key_column_usage', 'referential_constraints', 'schemata',
  'statistics', 'tables', 'views'
])

/** Of databases: where the owner's tables are. Every other engine is the engine's own, or leads to files or servers. */
export const DATABASE_ENGINES = ['Atomic', 'Ordinary'] as const
