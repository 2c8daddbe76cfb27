import type { Page } from '../api-client.ts'
import { useAnswer } from '../load.ts'
import { projectId } from '../router.ts'

/** Names of stored events to choose from, for inputs with the list `event-names`. */
export function EventNames ({ search }: { search: string }) {
  const names = useAnswer<Page<{ name: string }>>(`/api/projects/${projectId.value}/event_definitions/`, { search, limit: 20 })
  return <datalist id='event-names'>{names.value?.results.map(({ name }) => <option key={name} value={name} />)}</datalist>
}
