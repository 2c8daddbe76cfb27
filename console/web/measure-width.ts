import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

/** Minimum width of a picture, in pixels; its container scrolls. */
const LEAST = 280

/** Width of an element as it is now, so that a picture is drawn in pixels and its text keeps its size. */
export function useWidth (): { box: RefObject<HTMLElement | null>, width: number } {
  const box = useRef<HTMLElement>(null)
  const [width, setWidth] = useState(640)
  useLayoutEffect(() => {
    const take = ({ contentRect }: ResizeObserverEntry) => setWidth(Math.max(LEAST, Math.floor(contentRect.width)))
    const measure = new ResizeObserver((entries) => entries.forEach(take))
    if (box.current !== null) measure.observe(box.current)
    return () => measure.disconnect()
  }, [])
  return { box, width }
}

/** The width below which the stylesheet takes a screen for that of a phone. */
const PHONE = '(max-width: 40rem)'

export function useIsPhone (): boolean {
  const [isPhone, setPhone] = useState(() => matchMedia(PHONE).matches)
  useEffect(() => {
    const list = matchMedia(PHONE)
    const take = (): void => setPhone(list.matches)
    list.addEventListener('change', take)
    return () => list.removeEventListener('change', take)
  }, [])
  return isPhone
}
