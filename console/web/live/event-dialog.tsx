import type { ComponentChildren } from 'preact'
import { showText } from '../format.ts'
import { ReceiptOf } from '../receipts/receipt-view.tsx'
import { UUID } from '../receipts/explain-receipt.ts'
import { linkTo, projectId } from '../router.ts'
import { Dialog, Facts } from '../states.tsx'

interface EventDialogProps {
  name: string
  uuid: string
  distinctId: string
  /** What its row does not show. */
  facts: Readonly<Record<string, ComponentChildren>>
  onClose: () => void
  children?: ComponentChildren
}

/** One event: its facts, its content as stored, and its receipt. */
export function EventDialog ({ name, uuid, distinctId, facts, onClose, children }: EventDialogProps) {
  const find = `/projects/${projectId.value}/find`
  const isKnown = UUID.test(uuid)
  return (
    <Dialog title={name === '' ? '(no name)' : showText(name)} onClose={onClose} isWide>
      <Facts
        of={{
          ...facts, Uuid: isKnown ? <a {...linkTo(`${find}?uuid=${uuid}`)}><code>{uuid}</code></a> : showText(uuid),
          'Distinct id': distinctId !== '' && <a {...linkTo(`${find}?distinct_id=${encodeURIComponent(distinctId)}`)}>{showText(distinctId)}</a>
        }}
      />
      {children}
      {isKnown && <><h3>Receipt</h3><ReceiptOf uuid={uuid} /></>}
      <p class='actions'><button type='button' onClick={onClose}>Close</button></p>
    </Dialog>
  )
}
