import { formatAgo, formatCount, formatTime } from '../format.ts'
import { path, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import type { PropertyDefinition } from './definition.ts'
import { ByDay, DefinitionList, NameCell } from './definition-list.tsx'
import { PropertyDetail } from './property-detail.tsx'
import { Tags } from './tag-editor.tsx'

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
        <label>
          Of{' '}
          <select value={type} onChange={(event) => setQuery({ of: event.currentTarget.value })}>
            <option value='event'>events</option><option value='person'>persons</option>
          </select>
        </label>
      }
      hint='Every property that was ever sent, by name. The type is inferred from the values.'
      head={
        <>
          <th scope='col'>Name</th><th scope='col'>Type</th><th scope='col'>Events by day</th><th scope='col'>Last seen</th>
          <th scope='col'>First seen</th><th scope='col' class='number'>Queries in 30 days</th><th scope='col'>Tags</th>
        </>
      }
      row={(property, onChanged, volumes) => (
        <>
          <NameCell definition={property} screen='properties' />
          <td>{property.property_type ?? 'unknown'}</td>
          <td><ByDay volumes={volumes?.get(property.id)} /></td>
          <td title={`${formatTime(property.last_seen_at)} UTC`}>{formatAgo(property.last_seen_at, Date.now())}</td>
          <td title={`${formatTime(property.created_at)} UTC`}>{formatAgo(property.created_at, Date.now())}</td>
          <td class='number'>{formatCount(property.query_usage_30_day)}</td>
          <td><Tags resource='property_definitions' definition={property} mayWrite={mayWrite} onChanged={onChanged} /></td>
        </>
      )}
    />
  )
}
