import { request } from '../api-client.ts'
import { formatCount, formatCounted, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Show } from '../states.tsx'
import { ByDay } from './definition-list.tsx'
import { type EventDefinition, type EventProfile, nameType } from './definition.ts'
import { Notes, SdkVersions, Table, UsedBy } from './definition-parts.tsx'

/** One event: how often, who sends it, with which properties, and what asks for it. */
export function EventDetail ({ id }: { id: string }) {
  const base = `/api/projects/${projectId.value}/event_definitions/`
  const event = useLoaded(`event ${id}`, async (signal) => await request<EventDefinition>(`${base}${encodeURIComponent(id)}/`, { signal }))
  const volumes = useLoaded(`volumes ${id}`, async (signal) =>
    await request<{ results: { volumes: number[] }[] }>(`${base}volumes/`, { query: { ids: id }, signal }))
  const profile = useLoaded(`profile ${id}`, async (signal) => await request<EventProfile>(`${base}${encodeURIComponent(id)}/profile/`, { signal }))
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/events`)}>Events</a></p>
      <Show of={event} what='The event'>
        {(value) => (
          <>
            <Notes resource='event_definitions' definition={value} mayWrite={may('event_definition:write')} onChanged={event.reload}>
              <div><dt>In 30 days</dt><dd>{formatCounted(value.volume_30_day, 'event')} <ByDay volumes={volumes.value?.results[0]?.volumes} /></dd></div>
              <div><dt>Queries</dt><dd>{formatCount(value.query_usage_30_day)} in 30 days</dd></div>
            </Notes>
            <UsedBy resource='event_definitions' id={id} />
            <Show of={profile} what='What sends it'>
              {({ sdk_versions: versions, properties }) => (
                <>
                  <SdkVersions versions={versions} />
                  <h2>Properties</h2>
                  {properties.length === 0
                    ? <p class='hint'>It has none.</p>
                    : (
                      <Table label='Properties' head={['Name', 'Types', 'Events']}>
                        {properties.map(({ name, types, events }) => (
                          <tr key={name}><td class='wide'>{showText(name)}</td><td>{types.map(nameType).join(', ')}</td><td class='number'>{formatCount(events)}</td></tr>
                        ))}
                      </Table>
                      )}
                </>
              )}
            </Show>
          </>
        )}
      </Show>
    </section>
  )
}
