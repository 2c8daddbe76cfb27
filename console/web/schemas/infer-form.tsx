import { useState } from 'preact/hooks'
import { useAttempt } from '../confirm.tsx'
import { formatCount, showText } from '../format.ts'
import { Failed, Select, Table } from '../states.tsx'
import type { InferredSchema } from './event-schemas.ts'
import { inferDraft } from './schema-requests.ts'

const DAYS = [1, 7, 30, 90, 365]

/** Makes a draft from stored events, and shows what it was made from. @param event  Empty: none is named yet. */
export function InferForm ({ event, onDraft }: { event: string, onDraft: (schema: unknown) => void }) {
  const [days, setDays] = useState(30)
  const [includeSdk, setIncludeSdk] = useState(false)
  const [found, setFound] = useState<InferredSchema>()
  const { isBusy, error, attempt } = useAttempt()
  const infer = async (): Promise<void> => {
    await attempt(async () => {
      const inferred = await inferDraft({ event, days, include_sdk: includeSdk })
      setFound(inferred)
      if (inferred.events > 0) onDraft(inferred.schema)
    })
  }
  return (
    <>
      <div class='toolbar'>
        <Select
          label='Events of' value={days} options={DAYS.map((each) => [each, each === 1 ? 'the last day' : `${each} days`] as const)}
          onChange={(value) => setDays(Number(value))}
        />
        <label>
          <input type='checkbox' checked={includeSdk} onChange={(change) => setIncludeSdk(change.currentTarget.checked)} /> With properties of SDKs ($…)
        </label>
        <button type='button' disabled={isBusy || event === ''} onClick={() => { void infer() }}>{isBusy ? 'Reading events …' : 'Infer a draft'}</button>
      </div>
      {error !== undefined && <Failed error={error} onRetry={() => { void infer() }} />}
      <div role='status'>{found !== undefined && <Basis found={found} />}</div>
    </>
  )
}

/** What a draft was made from: read it, because what is sent by mistake is in it, too. */
function Basis ({ found: { events, stored, properties } }: { found: InferredSchema }) {
  if (events === 0) return <p>No event of this name is stored of these days, so there is nothing to infer from.</p>
  return (
    <details>
      <summary>
        Inferred from {formatCount(events)}{stored > events && ` of ${formatCount(stored)}`} events, which all meet the draft.
        What is sent by mistake today is in it, too.
      </summary>
      <Table label='Properties that were found' head={['Property', 'Types', '#Events']}>
        {properties.map(({ name, types, events: having }) => (
          <tr key={name}><td class='wide'>{showText(name)}</td><td>{types.join(', ')}</td><td class='number'>{formatCount(having)}</td></tr>
        ))}
      </Table>
    </details>
  )
}
