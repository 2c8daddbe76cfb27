import type { Answer } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { showText } from '../format.ts'
import { useAnswer, useLoaded } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Again, Facts, Show } from '../states.tsx'
import { explainReceipt, leadsOf, listFacts, type Receipt } from './explain-receipt.ts'

/** Fate of an event, read from the stores now. @param onFate  Called each time the fate is known. */
export function ReceiptOf ({ uuid, onFate }: { uuid: string, onFate?: (fate: string) => void }) {
  const receipt = useLoaded(`receipt ${projectId.value} ${uuid}`, async (signal) => {
    const found = await request<Receipt>(`/api/projects/${projectId.value}/events/${uuid.toLowerCase()}/receipt`, { signal })
    onFate?.(found.fate)
    return found
  })
  return (
    <>
      <Show of={receipt} what='The receipt'>{(value) => <ReceiptView receipt={value} />}</Show>
      <p><Again of={receipt} /></p>
    </>
  )
}

export function ReceiptView ({ receipt }: { receipt: Receipt }) {
  const leads = leadsOf(receipt, `/projects/${projectId.value}`).filter(({ scope }) => may(scope))
  return (
    <>
      <p role='status'><strong>{receipt.fate.replaceAll('_', ' ')}</strong>. {explainReceipt(receipt, Date.now())}</p>
      {leads.length > 0 && <p class='leads'>{leads.map(({ to, title }) => <a key={to} {...linkTo(to)}>{title}</a>)}</p>}
      <Facts of={Object.fromEntries(listFacts(receipt).map(({ name, value }) => [name, showText(value, 400)]))} />
    </>
  )
}

type Stored = Answer<'/api/projects/{project_id}/events/{uuid}'>['stored']

/** The content of an event as analysts find it. */
export function StoredOf ({ uuid }: { uuid: string }) {
  const found = useAnswer<{ stored: Stored }>(`/api/projects/${projectId.value}/events/${uuid}`)
  return (
    <>
      <Show of={found} what='The stored event'>
        {({ stored }) => stored === null
          ? <p class='hint'>It is not stored, or not yet.</p>
          : <pre tabIndex={0} aria-label='As stored'>{describeStored(stored)}</pre>}
      </Show>
      <p><Again of={found}>Look again</Again></p>
    </>
  )
}

/** The properties are text: parsed numbers would lose digits. */
function describeStored ({ event, distinct_id: distinctId, timestamp, properties, is_bot: isBot }: NonNullable<Stored>): string {
  const bot = isBot ? 'is_bot       1: a crawler, which reports may leave out\n' : ''
  return `event        ${event}\ndistinct_id  ${distinctId}\ntimestamp    ${timestamp}\n${bot}properties   ${properties}`
}
