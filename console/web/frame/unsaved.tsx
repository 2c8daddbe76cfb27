/** What somebody wrote and did not save is not lost without a question: one mechanism for every editor. */
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { Ask } from '../confirm.tsx'
import { askBeforeLeaving } from '../router.ts'
import { session } from '../session.ts'

/** Editors on the page with something that is not saved. */
let unsaved = 0

/** How to go on when somebody leaves all the same; undefined: nobody is leaving. */
const leaving = signal<(() => void) | undefined>(undefined)

/**
 * Keeps the page while something is not saved: a link, another project, logging out and the way back in the history ask
 * first, by {@link LeaveDialog}; closing or loading the page again asks in the words of the browser. `navigate` does not
 * ask: it is what an editor calls when it has saved.
 */
export function useUnsaved (isUnsaved: boolean): void {
  useEffect(() => {
    if (!isUnsaved) return
    count(1)
    return () => count(-1)
  }, [isUnsaved])
}

function count (change: 1 | -1): void {
  unsaved += change
  askBeforeLeaving(unsaved === 0 ? undefined : (go) => { leaving.value = go })
  // A listener keeps browsers from restoring the page quickly, so it is there only when it is needed.
  if (unsaved === 0) window.removeEventListener('beforeunload', keepPage)
  else window.addEventListener('beforeunload', keepPage)
}

function keepPage (event: BeforeUnloadEvent): void {
  // Nobody may keep the page of somebody else.
  if (session.value !== null) event.preventDefault()
}

/** Asks whoever leaves; stands once beside the screens. */
export function LeaveDialog () {
  const go = leaving.value
  if (go === undefined) return null
  return (
    <Ask
      title='Leave without saving?' action='Leave' onClose={() => { leaving.value = undefined }}
      onConfirm={async () => { go() }}
    >
      <p>Your unsaved changes on this page will be lost.</p>
    </Ask>
  )
}
