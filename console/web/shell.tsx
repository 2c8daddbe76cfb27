import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Scope } from '../../platform/scopes.ts'
import { linkTo, navigate, path, projectId } from './router.ts'
import { logout, may, type Session } from './session.ts'
import { Failed, Loading } from './states.tsx'
import { ApiError } from './api-client.ts'

/** A screen: loaded when it is first opened. */
interface Screen {
  name: string
  title: string
  /** What a key must be allowed to do to see it. */
  scope: Scope
  /** False: it is about the installation. */
  isOfProject: boolean
  /** Needs a key for all projects: the default for screens about the installation. */
  needsAllProjects?: boolean
  load: () => Promise<ComponentType>
}

const SCREENS: Screen[] = [
  { name: 'health', title: 'Health', scope: 'project:read', isOfProject: false, load: async () => (await import('./health/health-screen.tsx')).HealthScreen },
  { name: 'live', title: 'Live events', scope: 'event:read', isOfProject: true, load: async () => (await import('./live/live-screen.tsx')).LiveScreen },
  { name: 'find', title: 'Find an event', scope: 'event:read', isOfProject: true, load: async () => (await import('./receipts/find-screen.tsx')).FindScreen },
  { name: 'dead-letters', title: 'Dead letters', scope: 'dead_letter:read', isOfProject: true, load: async () => (await import('./dead-letters/dead-letters-screen.tsx')).DeadLettersScreen },
  { name: 'flags', title: 'Flags', scope: 'feature_flag:read', isOfProject: true, load: async () => (await import('./flags/flags-screen.tsx')).FlagsScreen },
  { name: 'experiments', title: 'Experiments', scope: 'experiment:read', isOfProject: true, load: async () => (await import('./experiments/experiments-screen.tsx')).ExperimentsScreen },
  { name: 'events', title: 'Events', scope: 'event_definition:read', isOfProject: true, load: async () => (await import('./definitions/events-screen.tsx')).EventsScreen },
  { name: 'properties', title: 'Properties', scope: 'property_definition:read', isOfProject: true, load: async () => (await import('./definitions/properties-screen.tsx')).PropertiesScreen },
  { name: 'schemas', title: 'Schemas', scope: 'event_definition:read', isOfProject: true, load: async () => (await import('./schemas/schemas-screen.tsx')).SchemasScreen },
  { name: 'rules', title: 'Rules', scope: 'event_definition:read', isOfProject: true, load: async () => (await import('./rules/rules-screen.tsx')).RulesScreen },
  { name: 'persons', title: 'Persons', scope: 'person:read', isOfProject: true, load: async () => (await import('./persons/persons-screen.tsx')).PersonsScreen },
  { name: 'sql', title: 'SQL', scope: 'query:read', isOfProject: true, needsAllProjects: true, load: async () => (await import('./sql/sql-screen.tsx')).SqlScreen },
  { name: 'connect', title: 'Connect', scope: 'project:read', isOfProject: true, load: async () => (await import('./connect/connect-screen.tsx')).ConnectScreen },
  { name: 'usage', title: 'Usage', scope: 'project:read', isOfProject: true, load: async () => (await import('./quotas/quotas-screen.tsx')).QuotasScreen },
  { name: 'warnings', title: 'Warnings', scope: 'event:read', isOfProject: true, load: async () => (await import('./connect/warnings-screen.tsx')).WarningsScreen },
  { name: 'keys', title: 'Keys', scope: 'user:read', isOfProject: false, needsAllProjects: false, load: async () => (await import('./administration/keys-screen.tsx')).KeysScreen },
  {
    name: 'installation', title: 'Settings', scope: 'project:read', isOfProject: false,
    load: async () => (await import('./administration/installation-screen.tsx')).InstallationScreen
  }
]

/** Navigation, the project, and the screen of the address. */
export function Shell ({ session }: { session: Session }) {
  const project = projectId.value ?? session.projects[0]?.id
  const open = SCREENS.filter((screen) => may(screen.scope) && (!screen.isOfProject || project !== undefined) &&
    (session.all_projects || !(screen.needsAllProjects ?? !screen.isOfProject)))
  const name = projectId.value === undefined ? path.value[0] : path.value[2]
  const current = open.find((screen) => screen.name === name)
  const address = (screen: Screen): string => screen.isOfProject ? `/projects/${project}/${screen.name}` : `/${screen.name}`

  useEffect(() => {
    if (name === undefined && open[0] !== undefined) navigate(address(open[0]))
  }, [name])
  useEffect(() => { document.title = current === undefined ? 'Millrace' : `${current.title} · Millrace` }, [current?.name])

  return (
    <>
      <a class='skip' href='#content' onClick={skipToContent}>Skip to content</a>
      <header class='bar'>
        <span class='brand'>Millrace</span>
        <nav aria-label='Screens'>
          {open.map((screen) => (
            <a key={screen.name} {...linkTo(address(screen))} aria-current={screen === current ? 'page' : undefined}>{screen.title}</a>
          ))}
        </nav>
        {session.projects.length > 1 && (
          <label class='project'>
            Project{' '}
            <select value={String(project)} onChange={(event) => { navigate(`/projects/${event.currentTarget.value}/${current?.isOfProject === true ? current.name : 'events'}`) }}>
              {session.projects.map(({ id, name }) => <option key={id} value={String(id)}>{name} ({id})</option>)}
            </select>
          </label>
        )}
        <span class='who'>{session.email}</span>
        <button type='button' onClick={() => { void logout() }}>Log out</button>
      </header>
      <main id='content' tabIndex={-1}>
        {current === undefined
          ? name !== undefined && <NotThere />
          : <LazyScreen key={current.name} screen={current} />}
        {open.length === 0 && <p>This key may not see anything here. Make one with further scopes: <code>npx millrace keys create</code>.</p>}
      </main>
    </>
  )
}

function NotThere () {
  return (
    <section>
      <h1>Nothing here</h1>
      <p>There is no such page, or your key may not see it.</p>
    </section>
  )
}

/** Its code is fetched once; a failed fetch, such as after an upgrade, offers to load the page again. */
function LazyScreen ({ screen }: { screen: Screen }) {
  const [Loaded, setLoaded] = useState<{ Component: ComponentType }>()
  const [error, setError] = useState<ApiError>()
  useEffect(() => {
    screen.load().then(
      (Component) => setLoaded({ Component }),
      () => setError(new ApiError(0, 'console_error', 'This screen could not be loaded, perhaps because Millrace was upgraded meanwhile.')))
  }, [])
  if (error !== undefined) return <Failed error={error} onRetry={() => { location.reload() }} />
  if (Loaded === undefined) return <Loading what={screen.title} />
  const { Component } = Loaded
  return <Component />
}

/** A link to a part of the page would change the address, which tells the screen. */
function skipToContent (event: MouseEvent): void {
  event.preventDefault()
  document.getElementById('content')?.focus()
}
