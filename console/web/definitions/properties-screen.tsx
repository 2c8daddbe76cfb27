import { showText, zoneLabel } from '../format.ts'
import { OneOf, Rows } from '../frame/lists.tsx'
import { path, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import {
  describeDrift, formatShare, nameType, type PropertyDefinition, type PropertyProfile, type SeenType
} from './definition.ts'
import { ByDay, DefinitionList } from './definition-list.tsx'
import { useAnswer } from '../load.ts'
import { Select, Show, Time } from '../states.tsx'
import { Notes } from './notes.tsx'

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
      columns={() => [['Type', ({ property_type: type }) => type ?? 'unknown']]}
    />
  )
}

const base = (id: string): string => `/api/projects/${projectId.value}/property_definitions/${encodeURIComponent(id)}/`

function PropertyDetail ({ id }: { id: string }) {
  const property = useAnswer<PropertyDefinition>(base(id))
  const profile = useAnswer<PropertyProfile>(`${base(id)}profile/`)
  return (
    <OneOf home='properties' title='Properties' of={property} what='The property'>
      {(value) => (
        <>
          <Notes
            resource='property_definitions' definition={value} mayWrite={may('property_definition:write')} onChanged={property.reload}
            facts={{ Type: value.property_type ?? 'unknown' }}
          />
          <Show of={profile} what='Its values'>
            {({ types, events }) => (
              <>
                <Types types={types} />
                <h2>Carried by</h2>
                <Rows label='Carried by' of={events} columns={[['Event', ({ name }) => showText(name), 'wide'], ['#Events', ({ events }) => events]]} />
              </>
            )}
          </Show>
        </>
      )}
    </OneOf>
  )
}

function Types ({ types }: { types: readonly SeenType[] }) {
  return (
    <>
      <h2>Types and values</h2>
      <p>{describeDrift(types)}</p>
      {types.length > 0 && (
        <Rows
          label='Types and values' of={types} columns={[
            ['Type', ({ type }) => nameType(type)], ['Share', ({ share }) => formatShare(share)], ['#Events', ({ events }) => events],
            ['By day', ({ volumes }) => <ByDay volumes={volumes} />], [`First (${zoneLabel()})`, ({ first_seen_at: first }) => <Time at={first} />, 'numbers'],
            [`Last (${zoneLabel()})`, ({ last_seen_at: last }) => <Time at={last} />, 'numbers'],
            ['Values', ({ samples }) => samples === null
              ? 'you may not see them'
              : samples.map(({ value }, place) => <span key={value}>{place > 0 && ', '}<code>{showText(value, 80)}</code></span>), 'wide']
          ]}
        />
      )}
    </>
  )
}
