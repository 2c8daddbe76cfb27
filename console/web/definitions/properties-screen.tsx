import { formatCount, showText, zoneLabel } from '../format.ts'
import { linkTo, path, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import {
  describeDrift, formatShare, nameType, type PropertyDefinition, type PropertyProfile, type SeenType
} from './definition.ts'
import { ByDay, DefinitionList, NameCell } from './definition-list.tsx'
import { useAnswer } from '../load.ts'
import { Select, Show, Table, Time } from '../states.tsx'
import { Notes } from './definition-parts.tsx'

/** The properties that events or persons have, with the type that their values have; or one of them (`/<id>`). */
export function PropertiesScreen () {
  const [, , , id] = path.value
  if (id !== undefined) return <PropertyDetail key={id} id={id} />
  const mayWrite = may('property_definition:write')
  const type = query.value.get('of') === 'person' ? 'person' : 'event'
  return (
    <DefinitionList<PropertyDefinition>
      title='Properties'
      resource='property_definitions'
      mayWrite={mayWrite}
      filter={{ type }}
      choices={
        <Select label='Of' value={type} options={[['event', 'events'], ['person', 'persons']]} onChange={(value) => setQuery({ of: value })} />
      }
      hint='Properties with a definition, by name. Types are inferred from values.'
      head={['Name', 'Type']}
      row={(property) => (
        <>
          <NameCell definition={property} screen='properties' />
          <td>{property.property_type ?? 'unknown'}</td>
        </>
      )}
    />
  )
}

const base = (id: string): string => `/api/projects/${projectId.value}/property_definitions/${encodeURIComponent(id)}/`

/** One property: its types and whether they drift, and values. */
function PropertyDetail ({ id }: { id: string }) {
  const property = useAnswer<PropertyDefinition>(base(id))
  const profile = useAnswer<PropertyProfile>(`${base(id)}profile/`)
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/properties`)}>Properties</a></p>
      <Show of={property} what='The property'>
        {(value) => (
          <>
            <Notes resource='property_definitions' definition={value} mayWrite={may('property_definition:write')} onChanged={property.reload}>
              <div><dt>Type</dt><dd>{value.property_type ?? 'unknown'}</dd></div>
            </Notes>
            <Show of={profile} what='Its values'>
              {({ types, events }) => (
                <>
                  <Types types={types} />
                  <h2>Carried by</h2>
                  <Table label='Carried by' head={['Event', '#Events']}>
                    {events.map(({ name, events: count }) => <tr key={name}><td class='wide'>{showText(name)}</td><td class='number'>{formatCount(count)}</td></tr>)}
                  </Table>
                </>
              )}
            </Show>
          </>
        )}
      </Show>
    </section>
  )
}

function Types ({ types }: { types: readonly SeenType[] }) {
  return (
    <>
      <h2>Types and values</h2>
      <p>{describeDrift(types)}</p>
      {types.length > 0 && (
        <Table label='Types and values' head={['Type', 'Share', '#Events', 'By day', `First (${zoneLabel()})`, `Last (${zoneLabel()})`, 'Values']}>
          {types.map(({ type, share, events, volumes, first_seen_at: first, last_seen_at: last, samples }) => (
            <tr key={type}>
              <td>{nameType(type)}</td><td>{formatShare(share)}</td><td class='number'>{formatCount(events)}</td><td><ByDay volumes={volumes} /></td>
              <td class='numbers'><Time at={first} /></td><td class='numbers'><Time at={last} /></td>
              <td class='wide'>{samples === null
                ? 'your key may not see them'
                : samples.map(({ value }, place) => <span key={value}>{place > 0 && ', '}<code>{showText(value, 80)}</code></span>)}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  )
}
