import { type Page, request } from '../api-client.ts'
import { useLoaded } from '../load.ts'
import { projectId } from '../router.ts'

/** Names of stored events to choose from, for inputs with the list `event-names`. */
export function EventNames ({ search }: { search: string }) {
  const names = useLoaded(`names ${projectId.value} ${search}`, async (signal) =>
    await request<Page<{ name: string }>>(`/api/projects/${projectId.value}/event_definitions/`, { query: { search, limit: 20 }, signal }))
  return <datalist id='event-names'>{names.value?.results.map(({ name }) => <option key={name} value={name} />)}</datalist>
}
