import type { Page } from '../api-client.ts'
import type { Answer, Schema } from '../../api-types.ts'
import { showText, UNKNOWN, zoneLabel } from '../format.ts'
import { BackTo, ListScreen, searched } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { useList } from '../paging.tsx'
import { linkTo, path, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Select, Show, Time } from '../states.tsx'
import { StoredEvents } from '../live/stored-events.tsx'
import { Properties } from './properties.tsx'
import { Title } from '../title.tsx'

type GroupTypes = Answer<'/api/projects/{project_id}/groups/types'>
type GroupType = GroupTypes['results'][number]

type Group = Schema<'Group'>

const base = (): string => `/api/projects/${projectId.value}/groups`

/** Companies, teams and whatever else events belong to, by type; one of them: `/<index of the type>?key=`, as a path has no `..`. */
export function GroupsScreen () {
  const types = useAnswer<GroupTypes>(`${base()}/types`)
  const [, , , shown, old] = path.value // `/0/acme`, as addresses were before.
  const key = query.value.get('key') ?? (old === undefined ? null : decodeURIComponent(old))
  return (
    <Show of={types} what='Groups'>
      {({ results }) => {
        const type = results.find(({ group_type_index: index }) => String(index) === (shown ?? query.value.get('type'))) ?? results[0]
        if (type === undefined) return <><h1>Groups</h1><Empty>No event belongs to a group yet: SDKs call <code>group('company', 'acme')</code>.</Empty></>
        return key === null
          ? <GroupList types={results} type={type} />
          : <GroupDetail type={type} id={key} />
      }}
    </Show>
  )
}

function GroupList ({ types, type }: { types: readonly GroupType[], type: GroupType }) {
  const { group_type_index: index } = type
  return (
    <ListScreen
      title='Groups' of={useList<Group>(base(), { group_type_index: index, search: searched() })} keyOf={({ group_key: key }) => key}
      hint='Groups described with $groupidentify, and groups known from events only. Search by words in the key or the property name.'
      none='There are no groups of this type.' unfound={`No key or name has all these words: ${showText(searched())}`}
      tools={
        <Select
          label='Type' value={index} options={types.map((each) => [each.group_type_index, showText(each.group_type, 40)] as const)}
          onChange={(value) => setQuery({ type: value })}
        />
      }
      columns={[
        ['Key', ({ group_key: key }) => <a {...linkTo(`/projects/${projectId.value}/groups/${index}?key=${encodeURIComponent(key)}`)}>{showText(key, 80)}</a>, 'wide'],
        ['Name', ({ properties: { name } }) => typeof name === 'string' ? showText(name, 80) : UNKNOWN, 'wide'],
        ['#Properties', ({ properties }) => Object.keys(properties).length],
        [`Known since (${zoneLabel()})`, ({ created_at: at }) => <Time at={at} />, 'numbers']
      ]}
    />
  )
}

function GroupDetail ({ type, id }: { type: GroupType, id: string }) {
  const { group_type: name, group_type_index: index } = type
  const group = useAnswer<Page<Group>>(base(), { group_type_index: index, group_key: id })
  return (
    <section>
      <BackTo home={`groups?type=${index}`} title='Groups' />
      <Title name={id} max={120}> <span class='hint'>{showText(name, 40)}</span></Title>
      <Show of={group} what='The group'>
        {({ results: [found] }) => found === undefined || found.created_at === null
          ? <p class='hint'>It was never described with <code>$groupidentify</code>, and is known from events only.</p>
          : <Properties properties={found.properties} />}
      </Show>
      {may('event:read') && <><h2>Last events</h2><StoredEvents filter={{ group_type: name, group_key: id }} /></>}
    </section>
  )
}
