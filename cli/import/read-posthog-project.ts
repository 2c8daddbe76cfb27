/** Reads what PostHog's API lists of a project, from saved files or from the API itself. */
import { readFile } from 'node:fs/promises'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { MillraceError } from '../../engines/errors.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { POSTHOG_LISTS, type PosthogProject, readPosthogProject } from '../../engines/import/posthog-project.ts'
import { createManagementClient } from '../management-client.ts'
import { listFiles } from './list-files.ts'

/** @throws {MillraceError} `MILLRACE_IMPORT_FILE_MISSING`. */
export async function readPosthogFiles (files: readonly string[]): Promise<PosthogProject> {
  const documents: { name: string, content: unknown }[] = []
  const problems: string[] = []
  for (const { name, path } of await listFiles(files)) {
    try {
      documents.push({ name, content: parseStoredJson((await readFile(path, 'utf8')).replace(/^\ufeff/, '')) })
    } catch {
      problems.push(`${name} is not JSON`)
    }
  }
  return readPosthogProject(documents, problems)
}

const REQUEST_TIMEOUT_MS = 60_000
const PAGE_ITEMS = 200
/** Pages of a list at most: a host that always names a next one ends somewhere. */
const MAX_PAGES = 5000

/**
 * Lists that the key may not read are problems of the result, and no error.
 *
 * @param access  Base URL where people log in, not where SDKs send; a personal API key; id of a project, or `@current`.
 * @throws {MillraceError} `MILLRACE_IMPORT_SOURCE` when the host is no URL, or is not reached at all.
 */
export async function fetchPosthogProject (
  { host, key, project }: { host: string, key: string, project: string }
): Promise<PosthogProject> {
  const documents: { name: string, content: unknown }[] = []
  const problems: string[] = []
  if (!URL.canParse(host)) throw new MillraceError('MILLRACE_IMPORT_SOURCE', `--from ${host} is not a URL such as https://us.posthog.com`)
  // Its API has the same keys, pages and errors as ours.
  const api = createManagementClient(async () => ({ url: host, key }), () => REQUEST_TIMEOUT_MS)
  const path = `/api/projects/${encodeURIComponent(project)}/`
  for (const name of ['', ...POSTHOG_LISTS]) {
    try {
      let query: string | null = name === '' ? '' : `${name}/?limit=${PAGE_ITEMS}`
      for (let page = 0; query !== null && page < MAX_PAGES; page++) {
        const content = await api.send('GET', path + query, {})
        documents.push({ name, content })
        const { next } = fieldsOf(content)
        // The key goes to this host and no other, whatever an answer names.
        query = typeof next === 'string' ? `${name}/${new URL(next, host).search}` : null
      }
    } catch (error) {
      const { message, cause } = error instanceof Error ? error : new Error(String(error))
      const failure = cause instanceof Error ? cause.cause ?? cause : undefined
      const reason = failure instanceof Error ? `no answer from ${host}: ${failure.message}` : message
      // The first request: all others would fail the same way.
      if (name === '' && failure !== undefined) throw new MillraceError('MILLRACE_IMPORT_SOURCE', reason, { cause })
      problems.push(`${name === '' ? 'the project' : name}: ${reason}`)
    }
  }
  return readPosthogProject(documents, problems)
}
