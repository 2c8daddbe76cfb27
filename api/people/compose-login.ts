import type { SessionOptions } from '../../console/server/session-routes.ts'
import { createSessions } from '../../console/server/sessions.ts'
import type { KeyDirectory } from '../../platform/directory/key-directory.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { createLogIn } from './log-in.ts'
import { type ExternalLogin, findLogoutUrl, keepClaimsFresh } from './login-routes.ts'
import { writeRecord } from './record.ts'

interface LoginDeps { sql: Sql, keys: KeyDirectory, now: () => number, publicUrl: string, login?: ExternalLogin }

const PASSWORDS_ONLY: ExternalLogin = { provider: null, trustsProxy: false, readRoles: () => [] }

/** Sessions with every way to begin one, and the record of them. */
export function composeLogin (given: LoginDeps): SessionOptions & ExternalLogin {
  const deps = { ...given, ...given.login ?? PASSWORDS_ONLY }
  const { sql, keys, publicUrl, provider, trustsProxy, readRoles } = deps
  return {
    sql, keys, publicUrl, provider, trustsProxy, readRoles,
    sessions: createSessions(deps),
    logIn: createLogIn(deps),
    record: async (line) => await writeRecord(sql, line),
    keepFresh: async (request, found, token) => await keepClaimsFresh(request, found, token, deps),
    findLogoutUrl: async (request, found, token) => await findLogoutUrl(request, found, token, deps)
  }
}
