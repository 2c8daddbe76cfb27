import { computed, signal } from '@preact/signals'

/** Everything that the console shows has an address below this one, which can be sent to somebody. */
const BASE = '/console'

const address = signal(readAddress())

window.addEventListener('popstate', () => { address.value = readAddress() })

/** Parts of the path after the base: `['projects', '1', 'dead-letters', '5']`. */
export const path = computed(() => new URL(address.value, location.origin).pathname.slice(BASE.length).split('/').filter((part) => part !== ''))

/** The parameters of the address. */
export const query = computed(() => new URL(address.value, location.origin).searchParams)

/** The project that is shown; undefined outside of projects. */
export const projectId = computed(() => path.value[0] === 'projects' ? Number(path.value[1]) : undefined)

/**
 * Goes to an address of the console.
 *
 * @param target  Below the base, with parameters: `/health`.
 */
export function navigate (target: string): void {
  history.pushState(null, '', BASE + target)
  address.value = readAddress()
  window.scrollTo(0, 0)
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
      navigate(target)
    }
  }
}

function readAddress (): string {
  return location.pathname + location.search
}
