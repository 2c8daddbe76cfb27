import type { FastifyInstance } from 'fastify'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { ANNOTATIONS } from './annotations.ts'
import { type DocumentKind, documentRoutes } from './named-documents.ts'

const columnName = { type: 'string', maxLength: 400 } as const

const fields = {
  query: { type: 'string', minLength: 1, maxLength: 100_000, description: 'ClickHouse SQL, not validated until it runs.' },
  parameters: {
    type: 'object', maxProperties: 50, propertyNames: { maxLength: 64 }, additionalProperties: { type: 'string', maxLength: 10_000 },
    description: 'Values of the parameters {name:Type} of the query, by name.'
  },
  chart: {
    type: ['object', 'null'], additionalProperties: false, required: ['kind'],
    properties: {
      kind: { type: 'string', enum: ['line', 'bar', 'area', 'number'] },
      x: { ...columnName, description: 'Column of the horizontal axis.' },
      y: { type: 'array', maxItems: 10, items: columnName, description: 'Columns to plot.' }
    },
    description: 'Chart of the result; null: a table.'
  }
} as const

export const SAVED_QUERIES: DocumentKind<typeof fields> = {
  table: 'saved_queries', id: 'SavedQuery', noun: 'saved query', plural: 'saved queries', fields, defaults: { parameters: {}, chart: null }
}

/** What the console keeps and computes nothing of: queries, which run there and on boards, and marks on charts. */
export async function savedQueryRoutes (app: FastifyInstance, deps: { sql: Sql, publicUrl: string }): Promise<void> {
  await app.register(async (scope) => await documentRoutes(scope, deps, SAVED_QUERIES), { prefix: '/saved_queries' })
  await app.register(async (scope) => await documentRoutes(scope, deps, ANNOTATIONS), { prefix: '/annotations' })
}
