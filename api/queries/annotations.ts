import { parseIsoDateTime } from '../http/request-values.ts'
import type { DocumentKind } from './named-documents.ts'

const fields = { at: { type: 'string', format: 'date-time', description: 'When it happened.' } } as const

/** What happened in a project, such as a release: the console marks it on charts over time. */
export const ANNOTATIONS: DocumentKind<typeof fields> = {
  table: 'annotations', id: 'Annotation', noun: 'annotation', plural: 'annotations', fields, defaults: {},
  // Postgres does not know every form of ISO 8601.
  check: ({ at, ...given }) => ({ ...given, ...typeof at === 'string' && { at: parseIsoDateTime(at)?.toISOString() } })
}
