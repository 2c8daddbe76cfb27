import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { formatTime, showText, zoneLabel } from '../format.ts'
import { describeFate, type LiveEvent } from './live-log.ts'

/** Height of a row in pixels: only those that can be seen are in the page. The style sheet has the same number. */
const ROW_PIXELS = 34

/** Rows beyond both edges, so that scrolling shows no gaps. */
const MARGIN_ROWS = 8

const COLUMNS = 5

/**
 * The events, newest first; of thousands only those in sight are drawn.
 *
 * @param props.onHold  Rows are to stay where they are: somebody scrolls, presses one or moves to one by keyboard. Else
 *   another row would be under the pointer when it is released.
 */
export function LiveTable (
  { events, onOpen, onHold }: { events: readonly LiveEvent[], onOpen: (event: LiveEvent) => void, onHold: () => void }
) {
  const box = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ top: 0, height: 600 })
  const look = (): void => {
    if (box.current !== null) setView({ top: box.current.scrollTop, height: box.current.clientHeight })
  }
  useLayoutEffect(() => {
    // It grows with its first rows, and with the window.
    const observer = new ResizeObserver(look)
    if (box.current !== null) observer.observe(box.current)
    return () => observer.disconnect()
  }, [])

  const first = Math.max(0, Math.floor(view.top / ROW_PIXELS) - MARGIN_ROWS)
  const end = Math.min(events.length, Math.ceil((view.top + view.height) / ROW_PIXELS) + MARGIN_ROWS)
  return (
    <div
      ref={box} class='scroll live' role='region' aria-label='Live events' tabIndex={0}
      onScroll={(event) => {
        look()
        if (event.currentTarget.scrollTop > 0) onHold()
      }}
    >
      <table aria-rowcount={events.length + 1}>
        <thead>
          <tr>
            <th scope='col'>Received ({zoneLabel()})</th><th scope='col'>Event</th><th scope='col'>Distinct id</th>
            <th scope='col'>SDK</th><th scope='col'>Fate</th>
          </tr>
        </thead>
        <tbody onPointerDown={onHold} onFocusIn={onHold}>
          <Gap rows={first} />
          {events.slice(first, end).map((event) => <Row key={event.id} event={event} fate={describeFate(event)} onOpen={onOpen} />)}
          <Gap rows={events.length - end} />
        </tbody>
      </table>
    </div>
  )
}

function Gap ({ rows }: { rows: number }) {
  return rows <= 0 ? null : <tr aria-hidden='true'><td colSpan={COLUMNS} style={{ height: `${rows * ROW_PIXELS}px` }} /></tr>
}

function Row ({ event, fate, onOpen }: { event: LiveEvent, fate: string, onOpen: (event: LiveEvent) => void }) {
  return (
    // The name is the button, for the keyboard and for those who hear the page; a mouse may press anywhere. Who marks an id to copy it does not want
    // to open its row.
    <tr class={`fate-${event.fate}`} onClick={() => { if (document.getSelection()?.isCollapsed !== false) onOpen(event) }}>
      <td class='numbers'>{formatTime(new Date(event.at).toISOString(), 3).slice(11)}</td>
      <td><button type='button' class='quiet'>{event.event === '' ? '(no name)' : showText(event.event)}</button></td>
      <td>{showText(event.distinctId)}</td>
      <td>{showText(`${event.lib} ${event.libVersion}`.trim(), 60)}</td>
      <td class='fate'>{fate}</td>
    </tr>
  )
}
