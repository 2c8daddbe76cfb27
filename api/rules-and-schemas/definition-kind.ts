/**
 * What rules and event schemas have in common: definitions with versions. A version never changes; another content
 * makes the next one, which is enforced when it is made active. A deleted definition keeps its versions, because stored
 * events name them; one that is created with its name has a history of its own, whose numbers go on from there.
 */
import type { CursorKind } from '../http/list-queries.ts'
import { originSchemas, userSummarySchema } from '../projects/users.ts'
import type { TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { array, integer, object, optional, time, writableBody } from '../http/json-schema.ts'

/** Rules, or event schemas: how they are stored, what answers show of them, and what they are checked by. */
export interface DefinitionKind<Definition, Version, Content> {
  /** What an error calls one: `schema`. */
  noun: string
  /** In the OpenAPI document: of the routes, and in their titles. */
  tag: string
  one: string
  table: string
  versionsTable: string
  parentColumn: string
  contentColumn: string
  nameColumn: string
  /** What a name stands for, in the error that it is taken: `of this event`. */
  ofName: string
  /** The order of a list: columns that are unique together, all ascending. */
  order: readonly OrderColumn[]
  columns: readonly string[]
  /** Their values where a request that creates one does not give them. */
  defaults: (tx: TransactionSql, projectId: number) => Promise<Record<string, unknown>>
  /** Columns made of the content of a version. */
  contentColumns: string
  /** What of a definition a change may give. */
  writable: readonly string[]
  /** Of a project at most: an ingest process holds those of all projects in memory. */
  limit: number
  /** @throws {HttpError} 400 for a name that nothing can have. */
  checkName: (name: string) => void
  /**
   * The content that a request makes.
   *
   * @param newest  Content of the newest version, if any, which supplies fields that the request omits.
   * @returns undefined if the request does not change the content.
   */
  readContent: (fields: DefinitionFields, newest?: Content) => Content | undefined
  /** @throws {HttpError} 400 naming the place of what cannot be enforced, levels joined by `__`. */
  compile: (content: Content) => unknown
  /** Types of a row of each; never set. */
  rows?: { definition: Definition, version: Version }
}

export interface OrderColumn {
  column: string
  kind: Extract<CursorKind, 'text' | 'integer'>
}

export type AnyKind = DefinitionKind<unknown, unknown, any>

/** Fields of a request; named are those that are the same for every kind. */
export type DefinitionFields = Readonly<Record<string, unknown>> & {
  active_version?: number | null
  /** The newest version when the change was begun. */
  version?: number
}

export interface FieldSchemas<Name, Own, Content> {
  $id: string
  noun: string
  /** How often it gets a version: `every change of the schema makes one`. */
  makesVersion: string
  name: Name
  /** What belongs to the definition, and what to a version. */
  own: Own
  content: Content
  /** What a request that creates one must give. */
  required: readonly string[]
}

/**
 * The schemas of a kind's requests and answers. Clients may send back a whole definition: read-only fields are accepted
 * and ignored.
 */
export function describeFields<const Name extends object, const Own extends object, const Content extends object> (
  { $id, noun, makesVersion, name, own, content, required }: FieldSchemas<Name, Own, Content>
) {
  const active = {
    type: ['integer', 'null'], minimum: 1, maximum: 2_147_483_647, description: 'Enforced version; null: not enforced.'
  } as const
  const writable = { ...own, ...content, active_version: active }
  const [nameColumn = ''] = Object.keys(name)
  const readOnly = {
    id: { type: 'integer' },
    team_id: { type: 'integer', description: 'Id of the project.' },
    version: { type: 'integer', description: `Newest version; ${makesVersion}.` },
    first_version: { type: 'integer', description: `First version of this ${noun}. Earlier ones belong to deleted ${noun}s with the same ${nameColumn}.` },
    ...originSchemas
  } as const
  const { id, team_id: teamId, version, first_version: first, ...changed } = readOnly
  const ofVersions = { version, first_version: first, active_version: active }
  const shown = { id, team_id: teamId, ...name, ...own, ...content, ...ofVersions, ...changed }
  const ofVersion = { version: integer, ...content, created_by: userSummarySchema, created_at: time }
  const body = writableBody(writable, readOnly)
  return {
    $id,
    writable: Object.keys(writable),
    definition: object(shown, { $id }),
    version: object(ofVersion),
    create: { ...body, properties: { ...body.properties, ...name }, required },
    change: {
      ...body,
      properties: {
        ...body.properties,
        [nameColumn]: { readOnly: true },
        version: { type: 'integer', description: 'Version that the change is based on. If there is a newer one, the answer is 409 `conflict` and nothing changes.' }
      }
    }
  }
}

/** The body of a check of stored events: a draft, and which events. */
export function describeCheck (draft: Record<string, object>, defaultLimit: number): object {
  return optional({
    ...draft,
    days: { type: 'integer', minimum: 1, maximum: 365, description: 'Days before now, by the timestamp of the events; default 7.' },
    limit: {
      type: 'integer', minimum: 1, maximum: 100_000_000,
      description: `Maximum number of events to read, newest day first; default ${defaultLimit.toLocaleString('en')}.`
    }
  }, { additionalProperties: false })
}

/** Of objects that have each of these fields. */
export function listOf<const Fields extends object> (fields: Fields) {
  return array(object(fields))
}
