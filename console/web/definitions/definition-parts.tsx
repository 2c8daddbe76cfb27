/** The parts that the page of an event and that of a property share. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { formatAgo, showText } from '../format.ts'
import { Time } from '../states.tsx'
import { ChangeDialog } from './change-dialog.tsx'
import type { Noted } from './definition.ts'
import { Title } from '../title.tsx'

interface NotesProps {
  /** Part of the path of the API: `event_definitions`. */
  resource: string
  definition: Noted & { created_at: string, last_seen_at: string | null }
  mayWrite: boolean
  onChanged: () => void
  /** Further facts. */
  children?: ComponentChildren
}

/** What people say about a definition, and when it was seen. */
export function Notes ({ resource, definition, mayWrite, onChanged, children }: NotesProps) {
  const [isChanging, setChanging] = useState(false)
  const { name, description, owner, verified, hidden, tags, created_at: first, last_seen_at: last } = definition
  return (
    <>
      <Title name={name} />
      {description !== '' && <p>{showText(description, 3000)}</p>}
      <dl class='facts'>
        <div><dt>Seen</dt><dd class='numbers'>first <Time at={first} />, last <Time at={last} isZoned /> ({formatAgo(last, Date.now())})</dd></div>
        {children}
        <div><dt>Owner</dt><dd>{owner?.email ?? 'nobody'}</dd></div>
        <div><dt>State</dt><dd>{verified ? 'verified' : 'not verified'}{hidden && ', hidden from lists'}</dd></div>
        <div><dt>Tags</dt><dd>{tags.length === 0 ? 'none' : tags.map((tag) => <span key={tag} class='tag'>{showText(tag, 40)}</span>)}</dd></div>
      </dl>
      {mayWrite && <p><button type='button' onClick={() => setChanging(true)}>Change …</button></p>}
      {isChanging && <ChangeDialog resource={resource} definition={definition} onClose={() => setChanging(false)} onChanged={onChanged} />}
    </>
  )
}
