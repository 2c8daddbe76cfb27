import type { ComponentType } from 'preact'
import { useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks'
import type { Session } from '../api-types.ts'
import { Account } from './account.tsx'
import { ApiError } from './api-client.ts'
import { GoTo } from './go-to.tsx'
import { focusContent, useFocusOnArrival } from './keep-focus.ts'
import { asApiError } from './load.ts'
import { leave, linkTo, navigate, path, projectId } from './router.ts'
import { openGroups, type Screen, type ScreenGroup } from './screens.ts'
import { loginAwaited, logout } from './session.ts'
import { chooseProject, shownProject } from './shown-project.ts'
import { Failed, Loading } from './states.tsx'
import { TimeZone } from './time-zone.tsx'
import { subject } from './title.tsx'

/** The menu, the project, and the screen of the address. */
export function Shell ({ session }: { session: Session }) {
  const project = shownProject.value
  const groups = openGroups(session, project)
  const open = groups.flatMap(({ screens }) => screens)
  const name = projectId.value === undefined ? path.value[0] : path.value[2]
  const current = open.find((screen) => screen.name === name)
  const address = (screen: Screen): string => screen.isOfProject ? `/projects/${project}/${screen.name}` : `/${screen.name}`

  useEffect(() => {
    const first = open.find(({ isEntrance }) => isEntrance) ?? open[0]
    if (name === undefined && first !== undefined) navigate(address(first))
  }, [name])
  const title = (loginAwaited.value !== undefined ? ['Log in', 'Millrace'] : [subject.value, current?.title ?? '', 'Millrace']).filter((part) => part !== '').join(' · ')
  useEffect(() => { document.title = title }, [title])
  const [isSearching, setSearching] = useState(false)
  const [isAtAccount, setAtAccount] = useState(false)
  useKey('k', () => setSearching(true))
  useFocusOnArrival(path.value.join('/'))

  return (
    <>
      <a class='skip' href='#content' onClick={skipToContent}>Skip to content</a>
      <header class='bar'>
        <span class='brand'>Millrace</span>
        {session.projects.length > 1 && (
          <label class='project'>
            <span>Project</span>{' '}
            <select
              value={String(project)} onChange={(event) => {
                const chosen = event.currentTarget.value
                // It shows the project that is shown, also while somebody is asked whether to leave it.
                event.currentTarget.value = String(project)
                if (current?.isOfProject === true) leave(() => navigate(`/projects/${chosen}/${current.name}`))
                else chooseProject(Number(chosen))
              }}
            >
              {session.projects.map(({ id, name }) => <option key={id} value={String(id)}>{name} ({id})</option>)}
            </select>
          </label>
        )}
        <button type='button' class='goto' aria-keyshortcuts='Control+K Meta+K' onClick={() => setSearching(true)}>Go to … <kbd>Ctrl K</kbd></button>
        <TimeZone />
        <button type='button' class='who quiet' onClick={() => setAtAccount(true)}><span class='hidden'>Your account </span>{session.email}</button>
        <button type='button' onClick={() => leave(() => { void logout() })}>Log out</button>
      </header>
      {isAtAccount && <Account session={session} onClose={() => setAtAccount(false)} />}
      {isSearching && <GoTo screens={open.map((screen) => ({ ...screen, to: address(screen) }))} onClose={() => setSearching(false)} />}
      <div class='page'>
        {open.length > 0 && <Menu groups={groups} current={current} address={address} />}
        <main id='content' tabIndex={-1}>
          {current === undefined
            ? name !== undefined && <NotThere />
            : <LazyScreen key={current.name} screen={current} />}
          {open.length === 0 && <p>This key cannot see anything here. Create one with more scopes: <code>npx millrace keys create</code>.</p>}
        </main>
      </div>
    </>
  )
}

/** Calls something when a key is pressed with Control or Command. */
function useKey (key: string, press: () => void): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== key || (!event.ctrlKey && !event.metaKey) || event.shiftKey || event.altKey || loginAwaited.value !== undefined) return
      event.preventDefault()
      press()
    }
    addEventListener('keydown', listen)
    return () => removeEventListener('keydown', listen)
  }, [])
}

interface MenuProps { groups: readonly ScreenGroup[], current: Screen | undefined, address: (screen: Screen) => string }

/** Every screen under what it is for: beside the page, and behind a button where there is no room for both. */
function Menu ({ groups, current, address }: MenuProps) {
  const [isOpen, setOpen] = useState(false)
  const button = useRef<HTMLButtonElement>(null)
  useEffect(() => { setOpen(false) }, [path.value.join('/')])
  function closeByKey (event: KeyboardEvent): void {
    if (event.key !== 'Escape' || !isOpen) return
    setOpen(false)
    button.current?.focus()
  }
  return (
    <div class={isOpen ? 'menu open' : 'menu'} onKeyDown={closeByKey}>
      <button ref={button} type='button' class='menu-button' aria-expanded={isOpen} aria-controls='menu' onClick={() => setOpen(!isOpen)}>
        Menu{current !== undefined && <span class='hint'> {current.title}</span>}
      </button>
      <nav id='menu' aria-label='Screens'>
        {groups.map(({ title, screens }) => (
          <div key={title} class='group'>
            <h2 id={`menu-${title}`}>{title}</h2>
            <ul aria-labelledby={`menu-${title}`}>
              {screens.map((screen) => (
                <li key={screen.name}><a {...linkTo(address(screen))} aria-current={screen === current ? 'page' : undefined}>{screen.title}</a></li>
              ))}
            </ul>
          </div>
        ))}
      </nav>
    </div>
  )
}

function NotThere () {
  return (
    <section>
      <h1>Nothing here</h1>
      <p>This page does not exist, or you have no access to it.</p>
    </section>
  )
}

/** Its code is fetched once; a failed fetch, such as after an upgrade, and a screen that throws offer to load the page again. */
export function LazyScreen ({ screen }: { screen: Pick<Screen, 'title' | 'load'> }) {
  const [Loaded, setLoaded] = useState<{ Component: ComponentType }>()
  const [error, setError] = useState<ApiError>()
  useEffect(() => {
    screen.load().then(
      (Component) => setLoaded({ Component }),
      () => setError(new ApiError(0, 'console_error', 'This screen could not be loaded, perhaps because Millrace was upgraded meanwhile.')))
  }, [])
  const [thrown, forget] = useErrorBoundary((reason) => { reportError(reason) })
  // Another address may be one that it can show.
  useEffect(forget, [path.value])
  if (thrown !== undefined) return <Failed error={asApiError(thrown)} onRetry={() => { location.reload() }} />
  if (error !== undefined) return <Failed error={error} onRetry={() => { location.reload() }} />
  if (Loaded === undefined) return <Loading what={screen.title} />
  const { Component } = Loaded
  return <Component />
}

/** A link to a part of the page would change the address, which tells the screen. */
function skipToContent (event: MouseEvent): void {
  event.preventDefault()
  focusContent()
}
