import { useState } from 'preact/hooks'
import { formatCount, showText } from '../format.ts'
import { ReceiptOf, StoredOf } from '../receipts/receipt-view.tsx'
import { UUID } from '../receipts/explain-receipt.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Dialog, Time } from '../states.tsx'
import { describeFate, type LiveEvent, toCurl } from './live-log.ts'

/** One live event: as stored, its receipt, and a command that sends it again. */
export function EventDialog ({ event, onClose }: { event: LiveEvent, onClose: () => void }) {
  const home = `/projects/${projectId.value}`
  const isKnown = UUID.test(event.uuid)
  return (
    <Dialog title={event.event === '' ? '(no name)' : showText(event.event)} onClose={onClose} isWide>
      <dl class='facts'>
        <div><dt>Received</dt><dd><Time at={new Date(event.at).toISOString()} isZoned digits={3} /></dd></div>
        <div><dt>Fate</dt><dd>{describeFate(event)}</dd></div>
        <div><dt>Uuid</dt><dd><code>{event.uuid === '' ? '–' : showText(event.uuid)}</code></dd></div>
        <div>
          <dt>Distinct id</dt>
          <dd>{event.distinctId === '' ? '–' : <a {...linkTo(`${home}/find?distinct_id=${encodeURIComponent(event.distinctId)}`)}>{showText(event.distinctId)}</a>}</dd>
        </div>
        <div><dt>SDK</dt><dd>{showText(`${event.lib} ${event.libVersion}`.trim()) || '–'}</dd></div>
        {event.value !== '' && <div><dt>Value at fault</dt><dd><code>{showText(event.value)}</code></dd></div>}
        {may('event_definition:read') && event.drop === null && (
          <div><dt>Definition</dt><dd><a {...linkTo(`${home}/events?search=${encodeURIComponent(event.event)}`)}>{showText(event.event)}</a></dd></div>
        )}
      </dl>
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

/** A command that sends it again. */
function AsCommand ({ event }: { event: LiveEvent }) {
  const [copied, setCopied] = useState<boolean>()
  const command = toCurl(event, location.origin)
  if (event.sent === '') return <p class='hint'>Too large for a command: {formatCount(event.sentCharacters)} characters.</p>
  return (
    <>
      <p>
        <button
          type='button' onClick={() => {
            copy(command).then(() => setCopied(true), () => setCopied(false))
          }}
        >Copy as curl
        </button>{' '}
        <span role='status'>{copied === true ? 'Copied.' : copied === false ? 'The browser does not allow that: copy it from below.' : ''}</span>
      </p>
      <details open={copied === false}>
        <summary>As a command</summary>
        <pre tabIndex={0} aria-label='As a command'>{command}</pre>
        <p class='hint'>An event with a uuid counts once, however often it is sent.</p>
      </details>
    </>
  )
}

/** @throws where there is no clipboard, as on pages without TLS. */
async function copy (text: string): Promise<void> {
  await navigator.clipboard.writeText(text)
}
