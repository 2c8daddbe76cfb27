import { formatCount, showText } from '../format.ts'
import { may } from '../session.ts'
import { DefinitionList } from './definition-list.tsx'
import { Tags } from './tag-editor.tsx'

interface PropertyDefinition {
  id: string
  name: string
  property_type: string | null
  query_usage_30_day: number
  tags: string[]
}

/** The properties that events have, with the type that their values have. */
export function PropertiesScreen () {
  return (
    <DefinitionList<PropertyDefinition>
      title='Properties'
      resource='property_definitions'
      hint='Every property of an event that was ever sent, by name. The type is inferred from the values.'
      head={
        <tr>
          <th scope='col'>Name</th><th scope='col'>Type</th><th scope='col' class='number'>Queries in 30 days</th><th scope='col'>Tags</th>
        </tr>
      }
      row={(property, onChanged) => (
        <tr key={property.id}>
          <td class='wide'>{showText(property.name)}</td>
          <td>{property.property_type ?? 'unknown'}</td>
          <td class='number'>{formatCount(property.query_usage_30_day)}</td>
          <td><Tags resource='property_definitions' definition={property} mayWrite={may('property_definition:write')} onChanged={onChanged} /></td>
        </tr>
      )}
    />
  )
}
