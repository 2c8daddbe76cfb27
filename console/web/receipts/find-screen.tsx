import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { linkTo, navigate, projectId, query } from '../router.ts'
import { Again, Empty, Show } from '../states.tsx'
import { Refused } from './refused-requests.tsx'
import { ReceiptOf } from './receipt-view.tsx'
import { explainReceipt, nameOf, type Receipt, UUID } from './explain-receipt.ts'

export function FindScreen () {
  // Links from other screens specify the kind of text; typed text may be either.
  const asked = query.value.get('uuid') ?? query.value.get('distinct_id') ?? ''
  const isDistinctId = query.value.has('distinct_id')
  const [draft, setDraft] = useState({ asked, text: asked })
  const typed = draft.asked === asked ? draft.text : asked
  // Who presses Find once more wants to know once more: the event may have come meanwhile.
  const [round, setRound] = useState(0)

  function search (event: SubmitEvent): void {
    event.preventDefault()
    const text = typed.trim()
    const name = UUID.test(text) ? 'uuid' : 'distinct_id'
    setRound(round + 1)
    navigate(`/projects/${projectId.value}/find${text === '' ? '' : `?${name}=${encodeURIComponent(text)}`}`)
  }

  return (
    <section>
      <h1>Where is my event?</h1>
      <form class='toolbar' onSubmit={search}>
        <label>
          Uuid or distinct id{' '}
          <input type='search' value={typed} maxLength={200} onInput={(event) => setDraft({ asked, text: event.currentTarget.value })} />
        </label>
        <button type='submit' class='primary'>Find</button>
      </form>
      {asked === ''
        ? (
          <Empty>
            <p>Paste the uuid of an event or the distinct id of a user.</p>
            <p>Searches everywhere an event can be: ClickHouse, the stream, dead letters and dropped events.</p>
          </Empty>
          )
        : (
          <Fragment key={`${asked} ${round}`}>
            {UUID.test(asked) && !isDistinctId
              ? <><h2>Event <code>{asked}</code></h2><ReceiptOf uuid={asked}><EventsOf distinctId={asked} /></ReceiptOf></>
              : <EventsOf distinctId={asked} />}
            <Refused />
          </Fragment>
          )}
    </section>
  )
}

function EventsOf ({ distinctId }: { distinctId: string }) {
  const receipts = useAnswer<{ results: Receipt[] }>(`/api/projects/${projectId.value}/receipts`, { distinct_id: distinctId, limit: 50 })
  const home = `/projects/${projectId.value}`
  return (
    <Show of={receipts} what='The events'>
      {({ results: found }) => found.length === 0
        ? (
          <p class='hint'>
            No event with the distinct id <code>{showText(distinctId)}</code> is stored or waiting, and none with a uuid was dropped in the last 30 days. To search by name, see{' '}
            <a {...linkTo(`${home}/stored?event=${encodeURIComponent(distinctId)}`)}>Stored events</a> and <a {...linkTo(`${home}/warnings`)}>Warnings</a>.
          </p>
          )
        : (
          <>
            <h2>Newest events of the distinct id <code>{showText(distinctId)}</code></h2>
            <Rows
              label='Events' of={found} columns={[
                ['Event', (receipt) => showText(nameOf(receipt)), 'value'], ['Fate', ({ fate }) => fate.replaceAll('_', ' ')],
                ['What it means', (receipt) => explainReceipt(receipt, Date.now()), 'wide'],
                ['Uuid', ({ uuid }) => <a {...linkTo(`${home}/find?uuid=${uuid}`)}><code>{uuid}</code></a>]
              ]}
            />
            <p><Again of={receipts} /></p>
          </>
          )}
    </Show>
  )
}
