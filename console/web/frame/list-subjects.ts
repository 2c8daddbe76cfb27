/** What boards and alerts are about, to choose from. */
import { type Page, request } from '../api-client.ts'
import { showText } from '../format.ts'
import { projectId } from '../router.ts'
import { currentSession } from '../session.ts'

/** More are found by none of these lists. */
const LISTED = 1000

const RESOURCES = {
  question: ['questions', ''], saved_query: ['saved_queries', ' (saved query)'], board: ['boards', ' (board)']
} as const

export type SubjectKind = keyof typeof RESOURCES

interface Named { id: number, name: string, definition?: { kind: string } }

/**
 * The stored objects of these kinds, as `kind id` with a name for people; saved queries for keys of all projects only.
 *
 * @param isWanted  Called with the kind of a question, and with undefined for everything else.
 */
export async function listSubjects (
  kinds: readonly SubjectKind[], signal: AbortSignal, isWanted: (question: string | undefined) => boolean = () => true
): Promise<[key: string, name: string][]> {
  const lists = await Promise.all(kinds.filter((kind) => kind !== 'saved_query' || currentSession().all_projects).map(async (kind) => {
    const [resource, words] = RESOURCES[kind]
    const { results } = await request<Page<Named>>(`/api/projects/${projectId.value}/${resource}/`, { query: { limit: LISTED }, signal })
    return results.filter(({ definition }) => isWanted(definition?.kind)).map(({ id, name }): [string, string] => [`${kind} ${id}`, `${showText(name, 80)}${words}`])
  }))
  return lists.flat()
}
