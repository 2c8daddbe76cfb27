import { Confirm } from '../confirm.tsx'
import { formatCount, formatCounted } from '../format.ts'
import { useLoaded } from '../load.ts'
import { Show } from '../states.tsx'
import { request } from '../api-client.ts'
import { base, type Filter, purge } from './dead-letters.ts'

/** Deletes dead letters for good, after their number was seen and a word was typed. */
export function PurgeDialog (
  { what, onClose, onDone }: { what: Filter | { id: number }, onClose: () => void, onDone: () => void }
) {
  const counted = useLoaded(`to purge ${JSON.stringify(what)}`, async () => 'id' in what ? 1 : (await purge(what)).matched)
  const confirm = async (): Promise<void> => {
    if ('id' in what) await request(`${base()}/${what.id}`, { method: 'DELETE' })
    else if (counted.value !== undefined && counted.value > 0) await purge(what, counted.value)
  }
  return (
    <Confirm title='Purge dead letters' word='purge' action={`Purge ${formatCount(counted.value)}`} onConfirm={confirm} onDone={onDone} onClose={onClose}>
      <Show of={counted} what='How many there are'>
        {(count) => <p>{formatCounted(count, 'dead letter')} would be deleted for good: the events in them are lost.</p>}
      </Show>
    </Confirm>
  )
}
