import { request } from '../api-client.ts'
import { useLoaded } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { may, session } from '../session.ts'
import { Show } from '../states.tsx'
import { describeRefused, isOfRequests, type RefusedRequests } from './warning-words.ts'

/** Requests that were refused before their events were read: among them may be the event that is missing. */
export function Refused () {
  const home = `/projects/${projectId.value}`
  const refused = useLoaded(`refused ${projectId.value}`, fetchRefused)
  return (
    <>
      <h2>Still missing an event? Requests refused before their events were read</h2>
      <Show of={refused} what='Refused requests'>
        {(found) => (
          <>
            {found.length === 0
              ? <p>No request was refused in the last 24 hours{session.value?.all_projects === true ? '' : ', as far as this key may see'}.</p>
              : <ul>{found.map((each) => <li key={each.reason}>{describeRefused(each, Date.now())}</li>)}</ul>}
            <p>
              {may('project:read') && (
                <>
                  <a {...linkTo(`${home}/connect`)}>Connect</a> has the right address and key, and a light that shows the first event;{' '}
                  <a {...linkTo(`${home}/usage`)}>Usage</a> the quota.{' '}
                </>
              )}
              <a {...linkTo(`${home}/warnings`)}>Warnings</a> has samples of refused requests. <a {...linkTo(`${home}/live`)}>Live events</a> shows what arrives when you send it again.
            </p>
          </>
        )}
      </Show>
    </>
  )
}

/** Requests of the last hours that were refused as a whole; those of no project only for keys of all projects. */
export async function fetchRefused (signal: AbortSignal, hours = 24): Promise<RefusedRequests[]> {
  const { results } = await request<{ results: RefusedRequests[] }>(`/api/projects/${projectId.value}/ingestion_warnings/summary/`, {
    query: { hours, unassigned: session.value?.all_projects === true || undefined }, signal
  })
  return results.filter(({ reason }) => isOfRequests(reason))
}
