import type { IncomingMessage } from 'node:http'
import type { KeyDirectory } from '../../platform/directory/key-directory.ts'
import type { EnforcedProject } from '../enforcement/read-projects.ts'
import { CAPTURE_SCOPE } from '../../schema/scopes.ts'
import type { ActiveQuota } from '../../schema/project-quotas.ts'
import { addressOf, type Sender, storedAddress } from './envelope.ts'
import type { Quotas } from './quotas.ts'
import type { Admission, Credentials } from './take-parsed-body.ts'

/** A request before its body is read. */
export interface SentRequest {
  raw: IncomingMessage
  sender: Sender
  query: Readonly<Record<string, unknown>>
  /** Who the body says sends it; known once its envelope was read. */
  credentials?: Credentials
}

/** Which project is it, and has it sent too much? */
export interface Admissions {
  /**
   * A known key is answered at once, others by a promise.
   *
   * @throws {HttpError} as `KeyDirectory.findProject`; 429 beyond a quota.
   */
  admit (credentials: Credentials, request: SentRequest): Admission | Promise<Admission>
  /**
   * Counts the events of a request that was let in.
   *
   * @param stored  Those that were neither dropped nor dead-lettered.
   */
  spend (projectId: number, stored: number): void
}

/** @param commonQuota  Of the projects that have none of their own; absent: they may send any number. */
export function createAdmissions (
  { keys, quotas, commonQuota }:
  { keys: KeyDirectory<EnforcedProject>, quotas: Quotas, commonQuota?: ActiveQuota | undefined }
): Admissions {
  /** Some project that sends here has a quota: without one, nothing is counted. */
  let hasQuota = false
  return {
    admit (credentials, request) {
      request.credentials = credentials
      const found = keys.findProject(credentials.apiKey, credentials.projectId, CAPTURE_SCOPE)
      return found instanceof Promise
        ? found.then((project) => admitTo(project, request))
        : admitTo(found, request)
    },
    spend (projectId, stored) {
      if (hasQuota) quotas.spend(projectId, stored)
    }
  }

  function admitTo (project: EnforcedProject, { sender, query, raw }: SentRequest): Admission {
    const quota = project.quota ?? commonQuota
    hasQuota ||= quota !== undefined
    const sampleRate = quota === undefined ? 1 : quotas.admit(project.id, quota)
    const address = addressOf(sender)
    const visitor = { address, userAgent: raw.headers['user-agent'] ?? '' }
    return { project, ip: storedAddress(address, query, project), visitor, sampleRate }
  }
}
