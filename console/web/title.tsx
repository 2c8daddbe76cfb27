import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { showText } from './format.ts'

/** What the page is about, for the title of its tab; empty: its screen alone says it. */
export const subject = signal('')

/** The heading of a page about one thing, whose name is in the title of the tab, too. @param props.max  Characters. */
export function Title ({ name, max, children }: { name: string, max?: number, children?: ComponentChildren }) {
  const shown = showText(name, max)
  useEffect(() => {
    subject.value = showText(name, 60)
    return () => { subject.value = '' }
  }, [name])
  return <h1>{shown}{children}</h1>
}
