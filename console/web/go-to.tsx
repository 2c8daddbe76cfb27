import { useEffect, useState } from 'preact/hooks'
import { type Page, request } from './api-client.ts'
import { showText } from './format.ts'
import { useLoaded } from './load.ts'
import { leave, navigate } from './router.ts'
import { currentSession, may } from './session.ts'
import { shownProject } from './shown-project.ts'
import { Dialog, Form } from './states.tsx'

interface Place {
  title: string
  to: string
  kind?: string
  /** By what else it is found. */
  words?: string | undefined
}

interface GoToProps { screens: readonly Place[], onClose: () => void }

const SHOWN = 5
const TYPING_MS = 150

/** Searchable objects: the scope needed, the path, and the link to each match. */
const SOURCES = [
  { kind: 'question', scope: 'query:read', path: 'questions/', place: ({ id, name }: Found) => ({ title: name, to: `questions/${id}` }) },
  { kind: 'board', scope: 'query:read', path: 'boards/', place: ({ id, name }: Found) => ({ title: name, to: `boards/${id}` }) },
  { kind: 'event', scope: 'event_definition:read', path: 'event_definitions/', place: ({ id, name }: Found) => ({ title: name, to: `events/${id}` }) },
  { kind: 'property', scope: 'property_definition:read', path: 'property_definitions/', place: ({ id, name }: Found) => ({ title: name, to: `properties/${id}` }) },
  { kind: 'flag', scope: 'feature_flag:read', path: 'feature_flags/', place: ({ id, key }: Found) => ({ title: key, to: `flags/${id}` }) },
  { kind: 'experiment', scope: 'experiment:read', path: 'experiments/', place: ({ id, name }: Found) => ({ title: name, to: `experiments/${id}` }) },
  { kind: 'person', scope: 'person:read', path: 'persons/search', place: ({ uuid, name, distinct_ids: [id] }: Found) => ({ title: name === '' ? id ?? uuid : name, to: `persons/${uuid}` }) },
  { kind: 'saved query', scope: 'query:read', path: 'saved_queries/', place: ({ id, name }: Found) => ({ title: name, to: `sql?saved=${id}` }), isOfAllProjects: true }
] as const

interface Found { id: number | string, uuid: string, key: string, name: string, distinct_ids: string[] }

interface Search { places: Place[], failed: string[] }

async function search (text: string, signal: AbortSignal): Promise<Search> {
  const project = shownProject.value
  if (text === '' || project === undefined) return { places: [], failed: [] }
  const sources = SOURCES.filter((source) => may(source.scope) && (!('isOfAllProjects' in source) || currentSession().all_projects))
  const answers = await Promise.allSettled(sources.map(async ({ kind, path, place }) => {
    const answer = await request<Partial<Page<Found> & { matches: Found[] }>>(`/api/projects/${project}/${path}`, { query: { search: text, limit: SHOWN }, signal })
    return (answer.results ?? answer.matches ?? []).slice(0, SHOWN).map((found) => {
      const { title, to } = place(found)
      return { kind, title, to: `/projects/${project}/${to}` }
    })
  }))
  return {
    places: answers.flatMap((answer) => answer.status === 'fulfilled' ? answer.value : []),
    failed: sources.filter((_, index) => answers[index]?.status === 'rejected').map(({ kind }) => kind)
  }
}

/** Screens and everything else that has a name, by a part of it. */
export function GoTo ({ screens, onClose }: GoToProps) {
  const [text, setText] = useState('')
  const [asked, setAsked] = useState('')
  const [chosen, setChosen] = useState(0)
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), TYPING_MS)
    return () => clearTimeout(timer)
  }, [text])
  const found = useLoaded(`go to ${asked}`, async (signal) => await search(asked, signal))
  const words = text.toLowerCase().split(/\s+/)
  const places: Place[] = [
    ...screens.filter(({ title, words: others = '' }) => words.every((word) => `${title} ${others}`.toLowerCase().includes(word))), ...asked === text.trim() ? found.value?.places ?? [] : []
  ]
  const at = Math.min(chosen, places.length - 1)
  const go = (place: Place | undefined): void => {
    if (place === undefined) return
    onClose()
    leave(() => navigate(place.to))
  }
  const press = (event: KeyboardEvent): void => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (by === undefined) return
    event.preventDefault()
    setChosen((at + by + places.length) % Math.max(1, places.length))
  }
  useEffect(() => { document.getElementById(`place-${at}`)?.scrollIntoView({ block: 'nearest' }) }, [at])
  return (
    <Dialog title='Go to' onClose={onClose}>
      <Form onSubmit={() => go(places[at])}>
        <input
          role='combobox' aria-label='Screen, question, event, property, flag, experiment, person or saved query' aria-expanded='true' aria-controls='places' autocomplete='off'
          aria-activedescendant={at < 0 ? undefined : `place-${at}`} placeholder='A screen or part of a name' maxLength={400} value={text} onKeyDown={press}
          onInput={(event) => { setText(event.currentTarget.value); setChosen(0) }}
        />
      </Form>
      <ul id='places' class='places' role='listbox' aria-label='Places'>
        {places.map(({ title, to, kind }, index) => (
          <li key={`${kind} ${to}`} id={`place-${index}`} role='option' aria-selected={index === at} onClick={() => go(places[index])}>
            {showText(title, 80)} <span class='hint'>{kind ?? 'screen'}</span>
          </li>
        ))}
      </ul>
      <p class='hint' role='status'>
        {found.value !== undefined && found.value.failed.length > 0 && `Search failed for: ${found.value.failed.join(', ')}. `}
        {places.length === 0 && !found.isLoading && asked === text.trim() && `Nothing found for ${showText(asked, 80)}.`}
      </p>
    </Dialog>
  )
}
