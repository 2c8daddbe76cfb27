import type { RefObject } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

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
