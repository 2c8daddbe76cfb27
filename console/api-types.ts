/** Names for what the management API answers; `npm run generate` writes the types from its OpenAPI document. */
import type { components, paths } from './api.generated.d.ts'

/** A schema that the OpenAPI document has a name for, such as `FeatureFlag`. */
export type Schema<Name extends keyof components['schemas']> = components['schemas'][Name]

/** The answer of an operation that succeeds, such as `Answer<'/api/projects/{project_id}/quota'>`. */
export type Answer<Path extends keyof paths, Method extends 'get' | 'post' | 'patch' = 'get'> =
  paths[Path][Method] extends { responses: infer Responses } ? Body<Responses> : never

type Body<Responses> = Responses extends { 200: { content: { 'application/json': infer Ok } } }
  ? Ok
  : Responses extends { 201: { content: { 'application/json': infer Created } } } ? Created : never

/** The status of the installation. */
export type Status = Schema<'Status'>

/** Who is logged in: the answer of `/console/session`. */
export interface Session {
  email: string
  first_name: string
  /** How somebody logs in again; of a user with both, the password counts. */
  login: 'key' | 'password' | 'provider'
  scopes: readonly string[]
  /** False for a key that is limited to some projects: it does not see the status of the installation. */
  all_projects: boolean
  /** Whether the role shows persons; a key's always does. */
  sees_persons: boolean
  projects: { id: number, name: string, timezone: string, week_starts: 'monday' | 'sunday', scopes: readonly string[] }[]
}
