import { Copyable } from '../confirm.tsx'
import { formatCount, showText } from '../format.ts'
import { ReceiptOf, StoredOf } from '../receipts/receipt-view.tsx'
import { UUID } from '../receipts/explain-receipt.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Dialog, Facts, Time } from '../states.tsx'
import { describeFate, type LiveEvent, toCurl } from './live-log.ts'

/** One live event: as stored, its receipt, and a command that sends it again. */
export function EventDialog ({ event, onClose }: { event: LiveEvent, onClose: () => void }) {
  const home = `/projects/${projectId.value}`
  const isKnown = UUID.test(event.uuid)
  return (
    <Dialog title={event.event === '' ? '(no name)' : showText(event.event)} onClose={onClose} isWide>
      <Facts
        of={{
          Received: <Time at={new Date(event.at).toISOString()} isZoned digits={3} />, Fate: describeFate(event),
          Uuid: <code>{event.uuid === '' ? '–' : showText(event.uuid)}</code>,
          'Distinct id': event.distinctId === '' ? '–' : <a {...linkTo(`${home}/find?distinct_id=${encodeURIComponent(event.distinctId)}`)}>{showText(event.distinctId)}</a>,
          SDK: showText(`${event.lib} ${event.libVersion}`.trim()) || '–',
          'Value at fault': event.value !== '' && <code>{showText(event.value)}</code>,
          Definition: may('event_definition:read') && event.drop === null && <a {...linkTo(`${home}/events?search=${encodeURIComponent(event.event)}`)}>{showText(event.event)}</a>
        }}
      />
      {event.fate === 'accepted' && (
        <>
          <h3>As stored</h3>
          <StoredOf uuid={event.uuid} />
          <AsCommand event={event} />
        </>
      )}
      {isKnown && (
        <>
          <h3>Receipt</h3>
          <ReceiptOf uuid={event.uuid} />
        </>
      )}
      <p class='actions'><button type='button' onClick={onClose}>Close</button></p>
    </Dialog>
  )
}

function AsCommand ({ event }: { event: LiveEvent }) {
  if (event.sent === '') return <p class='hint'>Too large for a command: {formatCount(event.sentCharacters)} characters.</p>
  return (
    <details>
      <summary>As a command</summary>
      <Copyable text={toCurl(event, location.origin)} label='As a command' />
      <p class='hint'>An event with a uuid counts once, however often it is sent.</p>
    </details>
  )
}
