/** Reads what PostHog's API lists of a project, from saved files or from the API itself. */
import { readFile } from 'node:fs/promises'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { MillraceError } from '../../engines/errors.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { POSTHOG_LISTS, type PosthogProject, readPosthogProject } from '../../engines/import/posthog-project.ts'
import { listFiles } from './list-files.ts'

/** @throws {MillraceError} `MILLRACE_IMPORT_FILE_MISSING`. */
export async function readPosthogFiles (files: readonly string[]): Promise<PosthogProject> {
  const documents: { name: string, content: unknown }[] = []
  const problems: string[] = []
  for (const { name, path } of await listFiles(files)) {
    try {
      documents.push({ name, content: parseStoredJson(await readFile(path, 'utf8')) })
    } catch {
      problems.push(`${name} is not JSON`)
    }
  }
  return readPosthogProject(documents, problems)
}

/** The base URL where people log in, not where SDKs send; a personal API key; the id of the project, or `@current`. */
interface PosthogAccess { host: string, key: string, project: string }

const REQUEST_TIMEOUT_MS = 60_000
const PAGE_ITEMS = 200
/** Pages of a list at most: a host that always names a next one ends somewhere. */
const MAX_PAGES = 5000

/**
 * Lists that the key may not read are problems of the result, and no error.
 *
 * @throws {MillraceError} `MILLRACE_IMPORT_SOURCE` when the host is no URL, or is not reached at all.
 */
export async function fetchPosthogProject (access: PosthogAccess): Promise<PosthogProject> {
  const documents: { name: string, content: unknown }[] = []
  const problems: string[] = []
  if (!URL.canParse(access.host)) throw new MillraceError('MILLRACE_IMPORT_SOURCE', `--from ${access.host} is not a URL such as https://us.posthog.com`)
  for (const list of ['', ...POSTHOG_LISTS]) {
    try {
      for await (const content of readPages(access, list)) documents.push({ name: list, content })
    } catch (error) {
      if (error instanceof MillraceError) throw error
      problems.push(`${list === '' ? 'the project' : list}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  return readPosthogProject(documents, problems)
}

async function * readPages ({ host, key, project }: PosthogAccess, list: string): AsyncGenerator<unknown> {
  const target = new URL(`/api/projects/${encodeURIComponent(project)}/${list === '' ? '' : `${list}/?limit=${PAGE_ITEMS}`}`, host)
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    // The key goes to this host and no other, whatever an answer names.
    const answer = await fetch(target, {
      headers: { authorization: `Bearer ${key}` }, redirect: 'error', signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS)
    }).catch((error: unknown) => {
      const { message, cause } = error instanceof Error ? error : new Error(String(error))
      const reason = `no answer of ${target.origin}: ${cause instanceof Error ? cause.message : message}`
      // What is asked first: all others would say the same.
      if (list === '') throw new MillraceError('MILLRACE_IMPORT_SOURCE', reason, { cause: error })
      throw new Error(reason)
    })
    if (!answer.ok) throw new Error(`${target.origin} answered ${answer.status}`)
    const content = parseStoredJson(await answer.text())
    yield content
    const { next } = fieldsOf(content)
    if (typeof next !== 'string') return
    target.search = new URL(next, host).search
  }
}
