import { forbidden } from '../engines/errors.ts'

/** What a personal key may be limited to. */
export const SCOPE_OBJECTS = [
  'dead_letter', 'event', 'event_definition', 'experiment', 'feature_flag', 'person', 'project', 'property_definition', 'query', 'user'
] as const

export type ScopeObject = typeof SCOPE_OBJECTS[number]

/** What a route asks for. */
export type Scope = `${ScopeObject}:${'read' | 'write'}`

/** What capture asks of a personal key; project and team keys have no scopes, they may capture and evaluate flags. */
export const CAPTURE_SCOPE: Scope = 'event:write'

/** True when a key with these scopes may do what the route asks: `*` is all, writing includes reading. */
export function allowsScope (scopes: readonly string[], wanted: Scope | '*'): boolean {
  if (scopes.includes('*') || scopes.includes(wanted)) return true
  const [object = ''] = wanted.split(':')
  return wanted.endsWith(':read') && scopes.includes(`${object}:write`)
}

/** True for the scopes that a key can be given: `*`, or an object with `read` or `write`. */
export function isScope (text: string): boolean {
  const [object, action, ...rest] = text.split(':')
  if (text === '*') return true
  return rest.length === 0 && SCOPE_OBJECTS.some((known) => known === object) && (action === 'read' || action === 'write')
}

/** @throws {HttpError} 403 `permission_denied` unless the scopes of the key include the wanted one. */
export function requireScope (scopes: readonly string[], wanted: Scope | '*'): void {
  if (allowsScope(scopes, wanted)) return
  throw forbidden(`API key missing required scope '${wanted}'.`)
}
