import { GROUP_TYPE_SEPARATOR, PROPERTY_ENTRY_SEPARATOR, PROPERTY_TYPE_CODES } from '../../schema/wire/event-row.ts'
import { isExactNumber } from '../../engines/body/parse-json.ts'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { toGroupType } from '../../schema/wire/identity.ts'
import { cutText, REPLACEMENT, toStorableText } from '../../engines/body/storable-text.ts'
import type { DescribedEvent, DescribedNames } from './described-names.ts'
import { PROMOTED_PROPERTIES } from '../event.ts'
import { isDeeperThan, MAX_PROPERTY_DEPTH } from '../../engines/body/property-depth.ts'
import { inferType, nameRuleOf, type NameRule, type PropertyType } from './infer-property-type.ts'

/** Above this many properties an event is not described (docs/reference/contract/sdks.md 3.1). */
const MAX_ENTRIES = 10_000

/** Longer names are not described, in bytes. */
const MAX_NAME_BYTES = 200

/**
 * Bytes that the type of a group takes at most, repeated before the name of each property: else a description could
 * be many times as long as what it describes. Enough for 600 properties of an `organization`.
 */
const MAX_REPEATED_TYPE_BYTES = 8192

/** Nodes remembered before the memory starts over: a few thousand shapes, some megabytes. */
const MAX_NODES = 30_000

/** Characters of a remembered text that count as a node: events with thousands of names have one of a megabyte. */
const CHARACTERS_PER_NODE = 200

/** A promoted column holds at most this many characters; `properties` keeps the whole. */
const MAX_PROMOTED_LENGTH = 8192

/** These are no properties of the event itself. */
const SKIPPED = new Set([
  '$set', '$set_once', '$unset', '$groups', '$group_0', '$group_1', '$group_2', '$group_3', '$group_4'
])

const PROMOTED_INDEXES = new Map(PROMOTED_PROPERTIES.map((name, index) => [name, index]))
const NOTHING_PROMOTED: readonly string[] = PROMOTED_PROPERTIES.map(() => '')

type Kind = 'e' | 'p' | 'g'

/** A property name at one place of the tree. */
interface Edge {
  rule: NameRule
  /** Name as it appears in the text; null when the name is skipped. */
  name: string | null
  /** That is not the name as it was sent. */
  isReplaced: boolean
  /** Position among the promoted values; -1 for none. */
  promotedIndex: number
  next: Partial<Record<PropertyType, Shape>>
}

/** The properties read so far, as a place in the tree of all shapes seen. */
interface Shape {
  parent: Shape | null
  /** What the text says of it; empty: nothing. */
  entry: string
  entries: number
  /** The finished text, made when a row first ends here. */
  text: string | null
  /** The event of this shape that was described last: mostly it is the only one. */
  of: DescribedEvent | null
  /** All events of this shape whose every property is described. */
  allOf: Set<DescribedEvent> | null
  edges: Partial<Record<Kind, Map<string, Edge>>>
}

/** How much is remembered, in nodes. */
interface Tree { nodes: number }

export interface ReadProperties {
  /** Which properties there are, of which type: `property_types` in `schema/wire/event-row.ts`. */
  types: string
  /** Values of the promoted properties as text, in the order of `PROMOTED_PROPERTIES`. */
  promoted: string[]
  /** A property whose column holds only the beginning of its value; null: none. */
  cut: string | null
  /** A property whose name is described with U+FFFD in it, for what cannot be stored; null: none. */
  replaced: string | null
  /** Properties without a definition: one with a long name, or all because they are too many; null: none. */
  undescribed: string | null
  /** A property may be nested too deep (`engines/body/property-depth.ts`). */
  isDeep: boolean
  /** The first that is not described because the project has too many names: the event, or a property; null: none. */
  beyond: string | null
}

export type PropertyReader = (projectId: number, event: string, properties: Record<string, unknown>) => ReadProperties

/** A name too long to be described; not remembered, or long names would fill the memory. */
const OVERLONG: Edge = { rule: 'any', name: null, isReplaced: false, promotedIndex: -1, next: {} }

/**
 * Reads off the properties of an event what has columns of its own: the promoted values and the description.
 *
 * Events of one kind carry the same properties, so descriptions are kept in a tree that is walked name by name and
 * type by type: a known shape costs a look-up a property and no new text, and rows of one shape share one string.
 */
export function createPropertyReader (now: () => number, names: DescribedNames): PropertyReader {
  const tree: Tree = { nodes: 0 }
  /** About the event that is being read. */
  let cut: string | null = null
  let replaced: string | null = null
  let undescribed: string | null = null
  let isDeep = false
  let beyond: string | null = null
  let root = createShape(tree, null, '')

  return function readProperties (projectId, event, properties) {
    if (tree.nodes > MAX_NODES || names.isFull) {
      if (names.isFull) names.forget()
      root = createShape(tree, null, '')
      tree.nodes = 0
    }
    cut = replaced = undescribed = beyond = null
    isDeep = false
    const promoted = NOTHING_PROMOTED.slice()
    let shape = walk(root, 'e', properties, '', promoted)
    if (event === '$groupidentify') {
      const prefix = groupPrefix(properties)
      if (prefix === null) undescribed = `${countNames(properties.$group_set)} properties of a group`
      shape = prefix === null ? root : walk(root, 'g', properties.$group_set, prefix)
    } else {
      if (properties.$set_once !== undefined) shape = walk(shape, 'p', properties.$set_once, '')
      if (properties.$set !== undefined) shape = walk(shape, 'p', properties.$set, '')
    }
    if (shape.entries > MAX_ENTRIES) undescribed = `${shape.entries} properties`
    const types = event === '$$plugin_metrics' ? '' : describe(shape, projectId, event)
    return { types, promoted, cut, replaced, undescribed, beyond, isDeep }
  }

  function walk (shape: Shape, kind: Kind, properties: unknown, prefix: string, promoted?: string[]): Shape {
    if (typeof properties !== 'object' || properties === null || Array.isArray(properties)) return shape
    const sent = properties as Record<string, unknown>
    for (const name in sent) {
      const value = sent[name]
      // Values within `$set` and the like are within the properties of the event, too.
      if (kind === 'e' && !isDeep && typeof value === 'object') isDeep = isDeeperThan(value, MAX_PROPERTY_DEPTH)
      const key = prefix === '' ? name : prefix + name
      const edge = shape.edges[kind]?.get(key) ?? addEdge(tree, shape, kind, key, name)
      if (edge === OVERLONG) undescribed = name
      if (edge.name === null) continue
      if (edge.isReplaced) replaced = name
      const type = inferType(edge.rule, value, now)
      if (edge.promotedIndex !== -1 && promoted !== undefined) {
        const text = textOfPromoted(value)
        const kept = text.length <= MAX_PROMOTED_LENGTH ? text : cutText(text, MAX_PROMOTED_LENGTH)
        if (kept.length < text.length) cut = name
        promoted[edge.promotedIndex] = kept
      }
      shape = edge.next[type] ??= createShape(tree, shape, kind + PROPERTY_TYPE_CODES[type] + edge.name)
    }
    return shape
  }

  /** The text of what the limits of the project leave; of an event and a shape that are known, all of it. */
  function describe (shape: Shape, projectId: number, event: string): string {
    if (shape.of !== null && shape.of.event === event && shape.of.projectId === projectId) return textOf(tree, shape)
    if (shape.entries > MAX_ENTRIES) return ''
    const found = names.findEvent(projectId, event)
    if (found === null) {
      beyond = 'the name of the event'
      return ''
    }
    if (shape.allOf?.has(found) !== true) {
      const entries = entriesOf(shape)
      const described = names.describe(found, entries)
      if (described !== entries) {
        beyond = `the property ${entries.find((entry, index) => described[index] !== entry)?.slice(2) ?? ''}`
        return described.join(PROPERTY_ENTRY_SEPARATOR)
      }
      shape.allOf ??= new Set()
      shape.allOf.add(found)
    }
    shape.of = found
    return textOf(tree, shape)
  }
}

function entriesOf (shape: Shape): string[] {
  const entries: string[] = []
  for (let at: Shape | null = shape; at !== null; at = at.parent) if (at.entry !== '') entries.push(at.entry)
  return entries.reverse()
}

function textOf (tree: Tree, shape: Shape): string {
  if (shape.text !== null) return shape.text
  shape.text = entriesOf(shape).join(PROPERTY_ENTRY_SEPARATOR)
  tree.nodes += shape.text.length / CHARACTERS_PER_NODE
  return shape.text
}

function addEdge (tree: Tree, shape: Shape, kind: Kind, key: string, name: string): Edge {
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return OVERLONG
  const entry = cleanEntry(key, kind)
  const edge: Edge = {
    rule: nameRuleOf(name),
    name: kind === 'e' && SKIPPED.has(name) ? null : entry,
    isReplaced: entry !== key,
    promotedIndex: kind === 'e' ? PROMOTED_INDEXES.get(name) ?? -1 : -1,
    next: {}
  }
  const edges = shape.edges[kind] ??= new Map<string, Edge>()
  edges.set(key, edge)
  tree.nodes++
  return edge
}

function createShape (tree: Tree, parent: Shape | null, entry: string): Shape {
  tree.nodes++
  const entries = (parent?.entries ?? 0) + (entry === '' ? 0 : 1)
  return { parent, entry, entries, text: null, of: null, allOf: null, edges: {} }
}

/** What stands before the name of each property of a group; null when they are too many to repeat it. */
function groupPrefix ({ $group_type: type, $group_set: set }: Record<string, unknown>): string | null {
  const prefix = toGroupType(type) + GROUP_TYPE_SEPARATOR
  return countNames(set) * Buffer.byteLength(prefix) <= MAX_REPEATED_TYPE_BYTES ? prefix : null
}

function countNames (properties: unknown): number {
  return typeof properties === 'object' && properties !== null ? Object.keys(properties).length : 0
}

function textOfPromoted (value: unknown): string {
  if (typeof value === 'string') return value
  if (value === null || value === undefined) return ''
  return typeof value === 'number' || isExactNumber(value) ? JSON.stringify(value) : stringifyJson(value)
}

/** The name as persons and groups have it, so without NUL. A group's must not hold the separator before it, either. */
function cleanEntry (text: string, kind: Kind): string {
  const cleaned = toStorableText(text)
  if (kind !== 'g') return cleaned
  const [type, ...name] = cleaned.split(GROUP_TYPE_SEPARATOR)
  return `${type}${GROUP_TYPE_SEPARATOR}${name.join(REPLACEMENT)}`
}
