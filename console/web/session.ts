import { effect, signal } from '@preact/signals'
import { allowsScope, type Scope } from '../../schema/scopes.ts'
import type { Session } from '../api-types.ts'
import { ApiError, request, whenLoggedOut } from './api-client.ts'
import { projectId } from './router.ts'

/** What the server takes, at least; it says so, too. */
export const PASSWORD_CHARACTERS = 10

/** Undefined until it is known, null when nobody is logged in. */
export const session = signal<Session | null | undefined>(undefined)

/** The logged-in user, for user-specific views. */
export function currentSession (): Session {
  if (session.value == null) throw new Error('nobody is logged in')
  return session.value
}

/** Forgets something that outlives its screen once nobody is logged in: the next user of the tab may be another one. */
export function whenSessionEnds (forget: () => void): void {
  effect(() => { if (session.value === null) forget() })
}

/** Why it is not known who is logged in; undefined while nothing failed. */
export const sessionFailure = signal<ApiError | undefined>(undefined)

/** The token of an invitation, from the address, until it was used or refused. */
export const invitation = signal<string | undefined>(undefined)

/** Why the link in the address did not log in; undefined while none was refused. */
export const linkRefusal = signal<string | undefined>(undefined)

/** A link that logs in, from the address, until the server has said something about it. */
let loginLink: string | undefined

/** Why the identity provider did not log somebody in, by the code that it led back with. */
const REFUSALS: Record<string, string> = {
  no_role: 'Your account at the identity provider has no role here. Ask an administrator.',
  account_exists: 'A user with your address already exists. An administrator must invite you to link the account.',
  disabled: 'Your account is disabled.',
  identity_provider_unavailable: 'The identity provider does not answer. Try again.'
}

/** Set while the page waits under a login, as its session has ended. */
export const loginAwaited = signal<((isBack: boolean) => void) | undefined>(undefined)

// Who has logged out meanwhile has not asked for what waits.
whenLoggedOut(async () => session.value != null && (await findLogin() ||
  (session.value != null && await new Promise<boolean>((resolve) => { loginAwaited.value = resolve }))))

/** Goes on when another tab, or a proxy, has logged somebody in. */
export async function findLogin (): Promise<boolean> {
  const found = await request<Session | undefined>('/console/session', { signal: AbortSignal.timeout(5000) }).catch(() => undefined)
  return found !== undefined && enter(found)
}

/** Nothing of a user who has logged out stays in another tab. */
const otherTabs = new BroadcastChannel('millrace-console')
otherTabs.onmessage = () => { enter(null) }

/** Begins a session; null ends it. The page goes on for its user with equal rights, and is loaded anew for others. */
function enter (next: Session | null): boolean {
  const rightsOf = ({ email, scopes, sees_persons: seesPersons, all_projects: isOfAll, projects }: Session): string =>
    JSON.stringify([email, scopes, seesPersons, isOfAll, projects.find(({ id }) => id === projectId.value)?.scopes])
  const isOther = next !== null && session.value != null && rightsOf(next) !== rightsOf(session.value)
  session.value = isOther ? null : next
  if (isOther) location.reload()
  loginAwaited.value?.(session.value !== null)
  loginAwaited.value = undefined
  return session.value !== null
}

/**
 * Finds out who is logged in. An address that ends in `#login=<token>` logs in with that link, once; one that ends
 * in `#invitation=<token>` asks for a password first.
 *
 * A server that cannot say who it is, because it or Postgres is away, has logged nobody out: `sessionFailure` has the
 * reason, and a later call may find out.
 */
export async function resumeSession (): Promise<void> {
  const [, kind, token] = /^#(login|invitation|refused)=([\w-]+)$/.exec(location.hash) ?? []
  if (token !== undefined) {
    if (kind === 'login') loginLink = token
    else if (kind === 'refused') linkRefusal.value = REFUSALS[token] ?? 'The identity provider did not log you in. Try again.'
    else invitation.value = token
    // The token must not stay in the address bar or the history.
    history.replaceState(null, '', location.pathname + location.search)
  }
  try {
    if (loginLink === undefined || !await loginByLink(loginLink)) enter(await request<Session | undefined>('/console/session') ?? null)
    sessionFailure.value = undefined
  } catch (error) {
    const failure = error instanceof ApiError ? error : new ApiError(0, 'console_error', String(error))
    if (isRefusal(failure)) session.value = null
    sessionFailure.value = isRefusal(failure) ? undefined : failure
  }
}

/** @returns false for a link that was used already: perhaps by this browser, which is logged in then. */
async function loginByLink (link: string): Promise<boolean> {
  try {
    await login({ login_link: link })
  } catch (error) {
    if (!(error instanceof ApiError) || !isRefusal(error)) throw error
    loginLink = undefined
    linkRefusal.value = error.message
    return false
  }
  loginLink = undefined
  return true
}

/** The server has an answer, and it is no; anything else may go away by itself. */
function isRefusal ({ status }: ApiError): boolean {
  return status >= 400 && status < 500
}

type Credential = { personal_api_key: string } | { login_link: string } | { email: string, password: string } |
  { invitation: string, password: string, first_name: string }

/** @throws {ApiError} when the key, the link or the password is refused. */
export async function login (credential: Credential): Promise<void> {
  enter(await request<Session>('/console/session', { method: 'POST', body: credential }))
  linkRefusal.value = undefined
}

export async function logout (): Promise<void> {
  // Whatever the server says, this page forgets.
  const left = await request<{ logout_url: string } | undefined>('/console/session', { method: 'DELETE' }).catch(() => {})
  enter(null)
  otherTabs.postMessage('logged out')
  if (left != null) location.assign(left.logout_url)
}

/** Whether the session may do something in a project: what it may not do is not offered. */
export function may (scope: Scope, project: number | undefined = projectId.value): boolean {
  if (session.value == null) return false
  const { scopes, projects } = session.value
  return allowsScope(projects.find(({ id }) => id === project)?.scopes ?? scopes, scope)
}
