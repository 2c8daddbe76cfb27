import { showText, UNKNOWN } from '../format.ts'
import { ListScreen, searched } from '../frame/lists.tsx'
import { useLoaded } from '../load.ts'
import { useList } from '../paging.tsx'
import { linkTo, path, projectId, query } from '../router.ts'
import { may } from '../session.ts'
import { Ago, Failed, OnOff } from '../states.tsx'
import { describeEnforced, describeFailed, type EventSchema } from './event-schemas.ts'
import { REQUESTS, SCHEMA_SCREEN } from './schema-detail.tsx'
import { COUNTED_DAYS, DefinitionDetail, NewDefinition } from '../frame/definition-screen.tsx'

export function SchemasScreen () {
  const id = path.value[3]
  if (id === 'new' && may('event_definition:write')) return <NewDefinition screen={SCHEMA_SCREEN} texts={{ event: query.value.get('event') ?? '' }} />
  if (id !== undefined) return <DefinitionDetail key={id} screen={SCHEMA_SCREEN} id={id} />
  return <SchemaList />
}

function SchemaList () {
  const home = `/projects/${projectId.value}/schemas`
  const schemas = useList<EventSchema>(REQUESTS.path(), { search: searched() })
  const counts = useLoaded(`schema counts ${projectId.value}`, async (signal) => await REQUESTS.counts(COUNTED_DAYS, signal))
  const failedOf = (id: number): string => {
    if (counts.value === undefined) return UNKNOWN
    const found = counts.value.get(id)
    return found === undefined ? 'none checked' : describeFailed(found)
  }
  return (
    <ListScreen
      title='Schemas' hint='Required form of the properties of an event. Ingest checks every event of that name against the active version.'
      of={schemas} none='No event has a schema yet: all events are stored.' unfound={`No event has all these words: ${searched()}`} keyOf={({ id }) => id}
      tools={may('event_definition:write') && <a class='button' {...linkTo(`${home}/new`)}>New schema</a>}
      columns={[
        ['Event', ({ id, event, description }) => (
          <><a {...linkTo(`${home}/${id}`)}>{showText(event)}</a>{description !== '' && <div class='hint'>{showText(description, 120)}</div>}</>
        ), 'wide'],
        ['Enforced', (schema) => <OnOff isOn={schema.active_version !== null}>{describeEnforced(schema)}</OnOff>],
        ['#Newest version', ({ version }) => version],
        [`#Not met in ${COUNTED_DAYS} days`, ({ id }) => failedOf(id)],
        ['Owner', ({ owner }) => showText(owner, 60), 'value'],
        ['Changed', ({ updated_at: at }) => <Ago at={at} />]
      ]}
    >
      {counts.error !== undefined && <Failed error={counts.error} onRetry={counts.reload} />}
    </ListScreen>
  )
}
