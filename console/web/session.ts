import { signal } from '@preact/signals'
import { allowsScope, type Scope } from '../../platform/scopes.ts'
import { request, whenLoggedOut } from './api-client.ts'

/** Who is logged in: the answer of `/console/session`. */
export interface Session {
  email: string
  first_name: string
  scopes: string[]
  /** Whether the key is for the whole installation, or for some projects. */
  all_projects: boolean
  projects: { id: number, name: string }[]
}

/** Undefined until it is known, null when nobody is logged in. */
export const session = signal<Session | null | undefined>(undefined)

whenLoggedOut(() => { session.value = null })

/** Finds out who is logged in. An address that ends in `#login=<token>` logs in with that link, once. */
export async function resumeSession (): Promise<void> {
  const link = /^#login=([\w-]+)$/.exec(location.hash)?.[1]
  if (link !== undefined) {
    // The token must not stay in the address bar or the history.
    history.replaceState(null, '', location.pathname + location.search)
    try {
      await login({ login_link: link })
      return
    } catch {
      // Used already: perhaps by this browser, which is logged in then.
    }
  }
  session.value = await request<Session>('/console/session').catch(() => null)
}

/** @throws {ApiError} when the key or the link is refused. */
export async function login (credential: { personal_api_key: string } | { login_link: string }): Promise<void> {
  session.value = await request<Session>('/console/session', { method: 'POST', body: credential })
}

export async function logout (): Promise<void> {
  // Whatever the server says, this page forgets.
  await request('/console/session', { method: 'DELETE' }).catch(() => {})
  session.value = null
}

/** Whether the key of the session may do something: what it may not do is not offered. */
export function may (scope: Scope): boolean {
  return session.value !== null && session.value !== undefined && allowsScope(session.value.scopes, scope)
}
