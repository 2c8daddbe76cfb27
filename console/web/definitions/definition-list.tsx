import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { formatCount, showText, UNKNOWN } from '../format.ts'
import { request } from '../api-client.ts'
import { type Column, ListScreen, searched } from '../frame/lists.tsx'
import { useLoaded } from '../load.ts'
import { useList } from '../paging.tsx'
import { linkTo, projectId, query, setQuery } from '../router.ts'
import { Ago, Checkbox, Failed, Select, Sparkline } from '../states.tsx'
import { ChangeDialog } from './notes.tsx'
import type { EventDefinition, Noted } from './definition.ts'

interface DefinitionListProps<T> {
  title: string
  resource: string
  /** Order by default, and those to choose from with their names. */
  orderings?: Record<string, string>
  hint: ComponentChildren
  columns: (volumesOf: (id: string) => readonly number[] | undefined) => Column<T>[]
  /** Whether the API counts them by day. */
  hasVolumes?: boolean
  mayWrite: boolean
  filter?: Record<string, string>
  choices?: ComponentChildren
}

type Listed = Noted & Pick<EventDefinition, 'last_seen_at' | 'created_at'>

/** A list of definitions with search, order and pages; all three are in the address. */
export function DefinitionList<T extends Listed> (
  { title, resource, orderings, hint, columns, hasVolumes = false, mayWrite, filter, choices }: DefinitionListProps<T>
) {
  const [changing, setChanging] = useState<T>()
  const showsHidden = query.value.get('hidden') === 'shown'
  const search = searched()
  const ordering = query.value.get('ordering') ?? Object.keys(orderings ?? {})[0] ?? ''
  const path = `/api/projects/${projectId.value}/${resource}/`
  const definitions = useList<T>(path, { search, ordering, ...filter, exclude_hidden: showsHidden ? undefined : true })
  const ids = hasVolumes ? definitions.value?.results.map(({ id }) => id).join() ?? '' : ''
  const volumes = useLoaded(`volumes ${path} ${ids}`, async (signal) =>
    ids === '' ? [] : (await request<{ results: { id: string, volumes: number[] }[] }>(`${path}volumes/`, { query: { ids }, signal })).results)
  return (
    <ListScreen
      title={title} hint={hint} of={definitions} class='dense' keyOf={({ id }) => id}
      none={`There are no ${title.toLowerCase()} yet: they appear a few seconds after the first event.`} unfound={`No name has all these words: ${search}`}
      tools={
        <>
          {orderings !== undefined && (
            <Select label='Order' value={ordering} options={Object.entries(orderings)} onChange={(value) => setQuery({ ordering: value })} />
          )}
          {choices}
          <Checkbox label='Show hidden' isOn={showsHidden} onChange={(isOn) => setQuery({ hidden: isOn ? 'shown' : '' })} />
        </>
      }
      columns={[
        ['Name', (each) => <Name definition={each} home={title.toLowerCase()} />, 'wide'],
        ...columns((id) => volumes.value?.find((each) => each.id === id)?.volumes),
        ['Last seen', ({ last_seen_at: at }) => <Ago at={at} />], ['First seen', ({ created_at: at }) => <Ago at={at} />],
        ['Tags', (each) => (
          <>
            {each.tags.map((tag) => <span key={tag} class='tag'>{showText(tag, 40)}</span>)}
            {mayWrite && (
              <button type='button' class='quiet' onClick={() => setChanging(each)}>
                {each.tags.length === 0 ? 'Add tags' : 'Change'}<span class='hidden'> of {showText(each.name, 60)}</span>
              </button>
            )}
          </>
        ), 'value']
      ]}
    >
      {volumes.error !== undefined && <Failed error={volumes.error} onRetry={volumes.reload} />}
      {changing !== undefined && (
        <ChangeDialog resource={resource} definition={changing} onClose={() => setChanging(undefined)} onChanged={definitions.reload} />
      )}
    </ListScreen>
  )
}

/** The name of a definition, which leads to all that is known of it, with what people say about it. */
function Name ({ definition: { id, name, description, verified, hidden }, home }: { definition: Noted, home: string }) {
  return (
    <>
      <a {...linkTo(`/projects/${projectId.value}/${home}/${id}`)}>{showText(name)}</a>
      {verified && <> <span class='tag'>verified</span></>}
      {hidden && <> <span class='tag'>hidden</span></>}
      {description !== '' && <div class='hint'>{showText(description, 120)}</div>}
    </>
  )
}

/** Events of each of the last 30 days as a picture. */
export function ByDay ({ volumes }: { volumes: readonly number[] | undefined }) {
  if (volumes === undefined) return <>{UNKNOWN}</>
  return <Sparkline values={volumes} label={`${formatCount(volumes.at(-1))} today, at most ${formatCount(Math.max(...volumes))} on a day`} />
}
