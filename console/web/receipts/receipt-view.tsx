import type { ComponentChildren } from 'preact'
import type { Answer } from '../../api-types.ts'
import { showText } from '../format.ts'
import { useAnswer } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Again, Facts, Show } from '../states.tsx'
import { explainReceipt, leadsOf, listFacts, type Receipt } from './explain-receipt.ts'

/** What became of an event, read from the stores now, and its content when it is stored. @param props.children  Shown when nothing is known of it. */
export function ReceiptOf ({ uuid, children }: { uuid: string, children?: ComponentChildren }) {
  const receipt = useAnswer<Receipt>(`/api/projects/${projectId.value}/events/${uuid.toLowerCase()}/receipt`)
  const fate = receipt.value?.fate
  return (
    <>
      <Show of={receipt} what='The receipt'>{(value) => <ReceiptView receipt={value} />}</Show>
      <p><Again of={receipt} /></p>
      {fate === 'stored' && <Stored uuid={uuid} />}
      {fate === 'unknown' && children}
    </>
  )
}

function ReceiptView ({ receipt }: { receipt: Receipt }) {
  const leads = leadsOf(receipt, `/projects/${projectId.value}`).filter(({ scope }) => may(scope))
  return (
    <>
      <p role='status'><strong>{receipt.fate.replaceAll('_', ' ')}</strong>. {explainReceipt(receipt, Date.now())}</p>
      {leads.length > 0 && <p class='leads'>{leads.map(({ to, title }) => <a key={to} {...linkTo(to)}>{title}</a>)}</p>}
      <Facts of={Object.fromEntries(listFacts(receipt).map(({ name, value }) => [name, showText(value, 400)]))} />
    </>
  )
}

type StoredContent = Answer<'/api/projects/{project_id}/events/{uuid}'>['stored']

/** The content of an event as analysts find it. */
function Stored ({ uuid }: { uuid: string }) {
  const found = useAnswer<{ stored: StoredContent }>(`/api/projects/${projectId.value}/events/${uuid}`)
  return (
    <>
      <h3>As stored</h3>
      <Show of={found} what='The stored event'>
        {({ stored }) => stored !== null && <pre tabIndex={0} aria-label='As stored'>{describeStored(stored)}</pre>}
      </Show>
    </>
  )
}

/** The properties are text: parsed numbers would lose digits. */
function describeStored ({ event, distinct_id: distinctId, timestamp, properties, is_bot: isBot }: NonNullable<StoredContent>): string {
  const bot = isBot ? 'is_bot       1: a crawler, which reports may leave out\n' : ''
  return `event        ${event}\ndistinct_id  ${distinctId}\ntimestamp    ${timestamp}\n${bot}properties   ${properties}`
}
