import { GROUP_TYPE_SEPARATOR, PROPERTY_ENTRY_SEPARATOR, PROPERTY_TYPE_CODES } from '../../schema/event-row.ts'
import { inferType, nameRuleOf, type NameRule, type PropertyType } from './infer-property-type.ts'

/** Above this many properties an event is not described (sdk-compat 3.1). */
const MAX_ENTRIES = 10_000

/** Nodes remembered before the memory starts anew: a few thousand shapes, some megabytes. */
const MAX_NODES = 30_000

/** These are no properties of the event itself. */
const SKIPPED = new Set([
  '$set', '$set_once', '$unset', '$groups', '$group_0', '$group_1', '$group_2', '$group_3', '$group_4'
])

type Kind = 'e' | 'p' | 'g'

/** What is known about a property name at one place of the tree. */
interface Edge {
  rule: NameRule
  /** Name as it appears in the text; null when the name is left out. */
  name: string | null
  next: Partial<Record<PropertyType, Shape>>
}

/** The properties read so far, as a place in the tree of all shapes seen. */
interface Shape {
  parent: Shape | null
  entry: string
  entries: number
  /** The finished text, made when a row first ends here. */
  text: string | null
  edges: Partial<Record<Kind, Map<string, Edge>>>
}

export type DescribeProperties = (event: string, properties: Record<string, unknown>) => string

/**
 * Describes which properties an event carries, of which type (`property_types` in `schema/event-row.ts`).
 *
 * Events of one kind carry the same properties, so the texts are kept in a tree that is walked name by name and type
 * by type: a known shape costs a look-up a property and no new text, and rows of one shape share one string.
 */
export function createDescribeProperties (now: () => number): DescribeProperties {
  let nodes = 0
  let root = createShape(null, '')

  return function describeProperties (event, properties) {
    if (event === '$$plugin_metrics') return ''
    if (nodes > MAX_NODES) {
      root = createShape(null, '')
      nodes = 0
    }
    if (event === '$groupidentify') {
      const type = properties.$group_type
      const prefix = `${typeof type === 'string' ? cleanEntry(type) : ''}${GROUP_TYPE_SEPARATOR}`
      return textOf(walk(root, 'g', properties.$group_set, prefix))
    }
    let shape = walk(root, 'e', properties, '')
    if (properties.$set_once !== undefined) shape = walk(shape, 'p', properties.$set_once, '')
    if (properties.$set !== undefined) shape = walk(shape, 'p', properties.$set, '')
    return textOf(shape)
  }

  function walk (shape: Shape, kind: Kind, properties: unknown, prefix: string): Shape {
    if (typeof properties !== 'object' || properties === null || Array.isArray(properties)) return shape
    const values = properties as Record<string, unknown>
    for (const name in values) {
      const edge = findEdge(shape, kind, prefix === '' ? name : prefix + name, name)
      if (edge.name === null) continue
      const type = inferType(edge.rule, values[name], now)
      shape = edge.next[type] ??= createShape(shape, kind + PROPERTY_TYPE_CODES[type] + edge.name)
    }
    return shape
  }

  function findEdge (shape: Shape, kind: Kind, key: string, name: string): Edge {
    const edges = shape.edges[kind] ??= new Map<string, Edge>()
    let edge = edges.get(key)
    if (edge === undefined) {
      const isLeftOut = (kind === 'e' && SKIPPED.has(name)) || Buffer.byteLength(name) > 200
      edge = { rule: nameRuleOf(name), name: isLeftOut ? null : cleanEntry(key, kind), next: {} }
      edges.set(key, edge)
      nodes++
    }
    return edge
  }

  function createShape (parent: Shape | null, entry: string): Shape {
    nodes++
    return { parent, entry, entries: (parent?.entries ?? -1) + 1, text: null, edges: {} }
  }
}

function textOf (shape: Shape): string {
  if (shape.text !== null) return shape.text
  if (shape.entries > MAX_ENTRIES) return ''
  const entries: string[] = []
  for (let at: Shape | null = shape; at !== null && at.parent !== null; at = at.parent) entries.push(at.entry)
  shape.text = entries.reverse().join(PROPERTY_ENTRY_SEPARATOR)
  return shape.text
}

/** The separators must not occur in names; the one that a group's prefix brought stays. */
function cleanEntry (text: string, kind: Kind = 'e'): string {
  const cleaned = text.replaceAll(PROPERTY_ENTRY_SEPARATOR, '\ufffd').toWellFormed()
  if (kind !== 'g') return cleaned.replaceAll(GROUP_TYPE_SEPARATOR, '\ufffd')
  const [type, ...name] = cleaned.split(GROUP_TYPE_SEPARATOR)
  return `${type}${GROUP_TYPE_SEPARATOR}${name.join('\ufffd')}`
}
