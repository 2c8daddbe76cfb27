import { useEffect, useState } from 'preact/hooks'
import { showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, navigate, projectId, query } from '../router.ts'
import { Empty, Show } from '../states.tsx'
import { ReceiptOf, StoredOf } from './receipt-view.tsx'
import { explainReceipt, fetchReceipts, UUID } from './receipts.ts'

/** Where is my event: the receipt of an uuid, or of the newest events of a distinct id. */
export function FindScreen () {
  const uuid = query.value.get('uuid') ?? ''
  const distinctId = query.value.get('distinct_id') ?? ''
  const [typed, setTyped] = useState(uuid === '' ? distinctId : uuid)
  useEffect(() => { setTyped(uuid === '' ? distinctId : uuid) }, [uuid, distinctId])

  function search (event: SubmitEvent): void {
    event.preventDefault()
    const text = typed.trim()
    const name = UUID.test(text) ? 'uuid' : 'distinct_id'
    navigate(`/projects/${projectId.value}/find${text === '' ? '' : `?${name}=${encodeURIComponent(text)}`}`)
  }

  return (
    <section>
      <h1>Where is my event?</h1>
      <form class='toolbar' onSubmit={search}>
        <label>
          Uuid or distinct id{' '}
          <input type='search' value={typed} maxLength={200} onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
        <button type='submit' class='primary'>Find</button>
      </form>
      {UUID.test(uuid)
        ? (
          <>
            <h2>Event <code>{uuid}</code></h2>
            <ReceiptOf key={uuid} uuid={uuid} />
            <h2>As stored</h2>
            <StoredOf key={uuid} uuid={uuid} />
          </>
          )
        : distinctId !== ''
          ? <EventsOf key={distinctId} distinctId={distinctId} />
          : (
            <Empty>
              Paste the uuid of an event, or the distinct id of a user. The answer comes from ClickHouse, the stream, the dead letters and
              the list of drops.
            </Empty>
            )}
    </section>
  )
}

function EventsOf ({ distinctId }: { distinctId: string }) {
  const receipts = useLoaded(`receipts ${projectId.value} ${distinctId}`, async (signal) => await fetchReceipts(distinctId, signal))
  return (
    <>
      <h2>Newest events of <code>{showText(distinctId)}</code></h2>
      <Show of={receipts} what='The events'>
        {(found) => found.length === 0
          ? <Empty>No event of this distinct id is stored, waits, was refused or was dropped lately. Check how the SDK writes it.</Empty>
          : (
            <div class='scroll' role='region' aria-label='Events' tabIndex={0}>
              <table>
                <thead><tr><th scope='col'>Uuid</th><th scope='col'>Event</th><th scope='col'>Fate</th><th scope='col'>What it means</th></tr></thead>
                <tbody>
                  {found.map((receipt) => (
                    <tr key={receipt.uuid}>
                      <td><a {...linkTo(`/projects/${projectId.value}/find?uuid=${receipt.uuid}`)}><code>{receipt.uuid}</code></a></td>
                      <td>{showText(receipt.stored?.event ?? String(receipt.waiting?.['event'] ?? ''))}</td>
                      <td>{receipt.fate.replaceAll('_', ' ')}</td>
                      <td class='wide'>{explainReceipt(receipt)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            )}
      </Show>
      <p><button type='button' onClick={receipts.reload} disabled={receipts.isLoading}>Ask again</button></p>
    </>
  )
}
