import { HttpError } from '../../../platform/errors.ts'
import { allowsScope, type Scope } from '../../keys/scopes.ts'

/** @throws {HttpError} 403 when a key with these scopes may not do what is asked. */
export function requireScope (scopes: readonly string[], wanted: Scope): void {
  if (allowsScope(scopes, wanted)) return
  throw new HttpError(403, 'authentication_error', 'permission_denied', `API key missing required scope '${wanted}'.`)
}
