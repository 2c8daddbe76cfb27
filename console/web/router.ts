import { computed, signal } from '@preact/signals'

/** Everything that the console shows has an address below this one, which can be sent to somebody. */
const BASE = '/console'

const address = signal(readAddress())

/** Confirmation required before leaving the page, if any. */
let ask: ((go: () => void) => void) | undefined

window.addEventListener('popstate', () => {
  const target = readAddress()
  if (ask === undefined || isSamePage(target)) {
    address.value = target
    return
  }
  // The browser is there already: the page that is still shown gets its address back.
  history.pushState(null, '', address.value)
  ask(() => navigate(target.slice(BASE.length)))
})

/** Parts of the path after the base: `['projects', '1', 'dead-letters', '5']`. */
export const path = computed(() => new URL(address.value, location.origin).pathname.slice(BASE.length).split('/').filter((part) => part !== ''))

export const query = computed(() => new URL(address.value, location.origin).searchParams)

/** The project that is shown; undefined outside of projects. */
export const projectId = computed(() => path.value[0] === 'projects' ? Number(path.value[1]) : undefined)

export function shownProjectId (): number {
  if (projectId.value === undefined) throw new Error('no project is shown')
  return projectId.value
}

/** Goes to an address of the console. @param target  Below the base, with parameters: `/health`. */
export function navigate (target: string): void {
  history.pushState(null, '', BASE + target)
  address.value = readAddress()
  window.scrollTo(0, 0)
}

/**
 * @param asked  Is called from now on instead of leaving, and calls what it gets to leave after all; undefined: nobody.
 */
export function askBeforeLeaving (asked: ((go: () => void) => void) | undefined): void {
  ask = asked
}

/** Leaves the page, unless the user is asked first and stays. */
export function leave (go: () => void): void {
  if (ask === undefined) go()
  else ask(go)
}

/** Changes parameters without a new entry in the history; empty ones are removed. */
export function setQuery (changes: Record<string, string>): void {
  const parameters = new URLSearchParams(location.search)
  for (const [name, value] of Object.entries(changes)) {
    if (value === '') parameters.delete(name)
    else parameters.set(name, value)
  }
  history.replaceState(null, '', location.pathname + (parameters.size === 0 ? '' : `?${parameters.toString()}`))
  address.value = readAddress()
}

/** Attributes of a link within the console: opens in place, and like any other link in a new tab. */
export function linkTo (target: string): { href: string, onClick: (event: MouseEvent) => void } {
  return {
    href: BASE + target,
    onClick (event) {
      if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
      event.preventDefault()
      if (isSamePage(BASE + target)) navigate(target)
      else leave(() => navigate(target))
    }
  }
}

/** Another query that is open (`?saved=`) is another page; other parameters are of one page. */
function isSamePage (target: string): boolean {
  const pageOf = (each: string): string => {
    const { pathname, searchParams } = new URL(each, location.origin)
    return `${pathname} ${searchParams.get('saved')}`
  }
  return pageOf(target) === pageOf(address.value)
}

function readAddress (): string {
  return location.pathname + location.search
}
