import type { ComponentChildren } from 'preact'
import { useFocusOnParts } from '../keep-focus.ts'

interface PartsProps<T> {
  of: readonly T[]
  what: string
  blank: T
  least?: number
  most?: number
  onChange: (of: T[]) => void
  children: (part: T, index: number, set: (part: T) => void) => ComponentChildren
}

/** Fields for a list whose parts can be added and removed. */
export function Parts<T> ({ of, what, blank, least = 0, most = Infinity, onChange, children }: PartsProps<T>) {
  const list = useFocusOnParts<HTMLDivElement>(of.length)
  return (
    <div ref={list}>
      <ol class='conditions'>
        {of.map((part, index) => (
          <li key={index} data-part>
            {children(part, index, (next) => onChange(of.with(index, next)))}
            {of.length > least && <button type='button' onClick={() => onChange(of.toSpliced(index, 1))}>Remove {what} {index + 1}</button>}
          </li>
        ))}
      </ol>
      {of.length < most && <button type='button' data-add onClick={() => onChange([...of, blank])}>Add a {what}</button>}
    </div>
  )
}
