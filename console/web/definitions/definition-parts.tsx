import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { formatAgo, showText } from '../format.ts'
import { Facts, Time } from '../states.tsx'
import { ChangeDialog } from './change-dialog.tsx'
import type { Noted } from './definition.ts'
import { Title } from '../title.tsx'

interface NotesProps {
  resource: string
  definition: Noted & { created_at: string, last_seen_at: string | null }
  mayWrite: boolean
  onChanged: () => void
  facts: Record<string, ComponentChildren>
}

/** What people say about a definition, and when it was seen. */
export function Notes ({ resource, definition, mayWrite, onChanged, facts }: NotesProps) {
  const [isChanging, setChanging] = useState(false)
  const { name, description, owner, verified, hidden, tags, created_at: first, last_seen_at: last } = definition
  return (
    <>
      <Title name={name} />
      {description !== '' && <p>{showText(description, 3000)}</p>}
      <Facts
        of={{
          Seen: <span class='numbers'>first <Time at={first} />, last <Time at={last} isZoned /> ({formatAgo(last, Date.now())})</span>,
          ...facts,
          Owner: owner?.email ?? 'nobody',
          State: `${verified ? 'verified' : 'not verified'}${hidden ? ', hidden from lists' : ''}`,
          Tags: tags.length === 0 ? 'none' : tags.map((tag) => <span key={tag} class='tag'>{showText(tag, 40)}</span>)
        }}
      />
      {mayWrite && <p><button type='button' onClick={() => setChanging(true)}>Change …</button></p>}
      {isChanging && <ChangeDialog resource={resource} definition={definition} onClose={() => setChanging(false)} onChanged={onChanged} />}
    </>
  )
}
