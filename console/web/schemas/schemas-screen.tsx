import { formatAgo, formatUtc, showText, UNKNOWN } from '../format.ts'
import { useLoaded } from '../load.ts'
import { Paged, Search, usePages } from '../paging.tsx'
import { linkTo, path, projectId, query } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Failed, OnOff, Table } from '../states.tsx'
import { COUNTED_DAYS, describeEnforced, describeFailed, type EventSchema } from './event-schemas.ts'
import { SCHEMA_SCREEN } from './schema-detail.tsx'
import { REQUESTS } from './activation.tsx'
import { DefinitionDetail, NewDefinition } from '../frame/definition-screen.tsx'

/** What the properties of events must be: all schemas, one of them (`/<id>`), and a new one (`/new`). */
export function SchemasScreen () {
  const id = path.value[3]
  if (id === 'new' && may('event_definition:write')) return <NewDefinition screen={SCHEMA_SCREEN} texts={{ event: query.value.get('event') ?? '' }} />
  if (id !== undefined) return <DefinitionDetail key={id} screen={SCHEMA_SCREEN} id={id} />
  return <SchemaList />
}

function SchemaList () {
  const search = query.value.get('search') ?? ''
  const schemas = usePages(`schemas ${projectId.value} ${search}`, async (page, signal) => await REQUESTS.list({ search, ...page }, signal))
  const none = search === '' ? 'No event has a schema yet: all events are stored.' : `No event has all these words: ${search}`
  return (
    <section>
      <h1>Schemas</h1>
      <p class='hint'>Required form of the properties of an event. Ingest checks every event of that name against the active version.</p>
      <div class='toolbar'>
        <Search label='Search schemas' />
        {may('event_definition:write') && <a class='button' {...linkTo(`/projects/${projectId.value}/schemas/new`)}>New schema</a>}
      </div>
      <Paged of={schemas} what='Schemas' empty={<Empty><p>{none}</p></Empty>}>
        {(results) => <SchemaTable schemas={results} />}
      </Paged>
    </section>
  )
}

function SchemaTable ({ schemas }: { schemas: readonly EventSchema[] }) {
  const counts = useLoaded(`schema counts ${projectId.value}`, async (signal) => await REQUESTS.counts(COUNTED_DAYS, signal))
  const now = Date.now()
  const failedOf = (id: number): string => {
    if (counts.value === undefined) return UNKNOWN
    const found = counts.value.get(id)
    return found === undefined ? 'none checked' : describeFailed(found)
  }
  return (
    <>
      {counts.error !== undefined && <Failed error={counts.error} onRetry={counts.reload} />}
      <Table
        label='Schemas'
        head={['Event', 'Enforced', '#Newest version', `#Not met in ${COUNTED_DAYS} days`, 'Owner', 'Changed']}
      >
        {schemas.map((schema) => (
          <tr key={schema.id}>
            <td class='wide'>
              <a {...linkTo(`/projects/${projectId.value}/schemas/${schema.id}`)}>{showText(schema.event)}</a>
              {schema.description !== '' && <div class='hint'>{showText(schema.description, 120)}</div>}
            </td>
            <td><OnOff isOn={schema.active_version !== null}>{describeEnforced(schema)}</OnOff></td>
            <td class='number'>{schema.version}</td>
            <td class='number'>{failedOf(schema.id)}</td>
            <td class='value'>{showText(schema.owner, 60)}</td>
            <td title={formatUtc(schema.updated_at)}>{formatAgo(schema.updated_at, now)}</td>
          </tr>
        ))}
      </Table>
    </>
  )
}
