import type { RefObject } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'

// Every move of the focus is a layout effect: one after the paint would take it from whoever has pressed Tab since.

/** Where the focus goes when what had it is gone: the content of the page. */
export function focusContent (): void {
  document.getElementById('content')?.focus({ preventScroll: true })
}

/**
 * Gives the focus back to what had it. That may go with the next answer, such as the row of a letter that was replayed:
 * then the content gets it.
 */
export function returnFocus (before: HTMLElement | null): void {
  if (before?.isConnected !== true) return focusContent()
  before.focus()
  const observer = new MutationObserver(() => {
    const { activeElement: active, body } = document
    if (before === active) return
    observer.disconnect()
    if (!before.isConnected && (active === null || active === body)) focusContent()
  })
  observer.observe(document.body, { childList: true, subtree: true })
}

/**
 * Moves the focus to the content when another page is opened: what was followed is gone, or is a long way of tabs
 * before it. The first page of a visit leaves it to the browser.
 */
export function useFocusOnArrival (page: string): void {
  const before = useRef(page)
  useLayoutEffect(() => {
    // The address alone leads on to the first screen.
    const isFirst = before.current === '' || before.current === page
    before.current = page
    if (!isFirst) focusContent()
  }, [page])
}

const IN_SIGHT = 200

/** Scrolls to what was asked for and gives it the focus, when it lies below the window, or `always`. */
export function bringIntoSight (element: HTMLElement | null, always = false): void {
  if (element === null || (!always && element.getBoundingClientRect().top <= innerHeight - IN_SIGHT)) return
  element.focus({ preventScroll: true })
  element.scrollIntoView({ block: 'start', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' })
}

/**
 * Keeps a button in the window while it has the focus, though an answer that is longer than the one before pushes it
 * down: whoever uses the keyboard would not see where they are.
 *
 * @param isLoading  Whether an answer is awaited.
 */
export function useStaysInSight (isLoading: boolean): RefObject<HTMLButtonElement | null> {
  const button = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => {
    if (button.current !== null && button.current === document.activeElement) button.current.scrollIntoView({ block: 'nearest' })
  }, [isLoading])
  return button
}

/**
 * Keeps the focus with a list that is edited: a part that was added gets it, and when the part that had it was removed,
 * it goes to the button that adds, which has the attribute `data-add`.
 *
 * @param count  Parts of the list.
 * @returns a reference for the element around the list and the button. Its parts have the attribute `data-part`.
 */
export function useFocusOnParts<T extends HTMLElement> (count: number): RefObject<T | null> {
  const box = useRef<T>(null)
  const before = useRef(count)
  useLayoutEffect(() => {
    const [was, element] = [before.current, box.current]
    before.current = count
    const active = document.activeElement
    if (element === null || was === count) return
    // Additions from elsewhere, such as from an earlier version, do not move the focus.
    if (count > was && element.contains(active)) lastOf(element, ':scope > [data-part], :scope > * > [data-part]')?.querySelector<HTMLElement>('input, select')?.focus()
    if (count < was && (active === null || active === document.body)) lastOf(element, '[data-add]')?.focus()
  }, [count])
  return box
}

function lastOf (element: HTMLElement, selector: string): HTMLElement | undefined {
  return [...element.querySelectorAll<HTMLElement>(selector)].at(-1)
}
