import { useMemo, useState } from 'preact/hooks'
import { ApiError } from '../api-client.ts'
import { ReceiptOf } from '../receipts/receipt-view.tsx'
import { may } from '../session.ts'
import { type OpenedDeadLetter, resend } from './dead-letters.ts'
import { draftEvent, makeUuid } from './edited-event.ts'

/** Changes the event of a dead letter and sends it as a new one; the letter stays until it is purged. */
export function EditEvent ({ letter }: { letter: OpenedDeadLetter }) {
  const draft = useMemo(() => draftEvent(letter, makeUuid()), [letter.id])
  const [text, setText] = useState(draft ?? '')
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  const [sent, setSent] = useState<string>()
  if (draft === null) return null

  async function send (): Promise<void> {
    setBusy(true)
    setError(undefined)
    try {
      setSent((await resend(letter.id, text)).uuid)
    } catch (cause) {
      setError(cause instanceof ApiError ? cause.message : String(cause))
    }
    setBusy(false)
  }

  return (
    <details>
      <summary>Edit and send as a new event</summary>
      <p class='hint'>It goes to ingest like any other event, names its origin in <code>$dead_letter_id</code>, and has an uuid of its own. This dead letter stays: purge it afterwards.</p>
      <label>
        The event
        <textarea rows={12} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      {error !== undefined && <p role='alert' class='error'>{error}</p>}
      <p><button type='button' class='primary' disabled={isBusy || sent !== undefined} onClick={() => { void send() }}>Send</button></p>
      {sent !== undefined && (may('event:read') ? <ReceiptOf uuid={sent} /> : <p role='status'>Sent as <code>{sent}</code>.</p>)}
    </details>
  )
}
