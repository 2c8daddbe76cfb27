import { readFileSync } from 'node:fs'
import path from 'node:path'

/** How a function is bounded (`bound-costs.ts`); the functions are in `allow-list.txt`. */
export type BoundKind = typeof BOUND_KINDS[number]
const BOUND_KINDS = ['texts', 'arrays', 'patterns', 'steps', 'series', 'first', 'second', 'range', 'blocks'] as const

/** What an analyst's query may name. All names are in lower case, as the engine takes many of them in any case. */
export type AllowList = ReturnType<typeof loadAllowList>

const FILE = path.join(import.meta.dirname, 'allow-list.txt')
const HEAD = /^((?:allow|ignore|mask|refuse) (?:(?:aggregate |table )?functions|settings|formats|system tables|information schema)|bound \w+): /

/** @throws when the file has a line that is none of its kinds. */
export function loadAllowList () {
  const lists = new Map<string, Set<string>>()
  let current: Set<string> | undefined
  for (const line of readFileSync(FILE, 'utf8').split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const head = HEAD.exec(line)
    if (head?.[1] !== undefined) lists.set(head[1], current = lists.get(head[1]) ?? new Set())
    else if (!line.startsWith('  ') || current === undefined) throw new Error(`${FILE}: not understood: ${line}`)
    else for (const name of line.trim().split(' ')) current.add(name.toLowerCase())
  }
  const list = (kind: string): ReadonlySet<string> => lists.get(kind) ?? new Set()
  return {
    functions: list('allow functions'),
    aggregateFunctions: list('allow aggregate functions'),
    tableFunctions: list('allow table functions'),
    systemTables: list('allow system tables'),
    /** Shown through views. */
    maskedSystemTables: list('mask system tables'),
    informationSchema: list('allow information schema'),
    settings: list('allow settings'),
    /** Taken and left out: they only tune, and many clients always send some. */
    ignoredSettings: list('ignore settings'),
    formats: list('allow formats'),
    /** Allowed, at a cost that is bounded. */
    bounds: new Map(BOUND_KINDS.flatMap((kind) => [...list(`bound ${kind}`)].map((name) => [name, kind] as const))),
    /** Read and refused: a function outside of both lists is one that nobody has read about yet. */
    refusedFunctions: list('refuse functions')
  }
}
