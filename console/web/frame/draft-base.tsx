/** The version that a draft was made of, so that nobody undoes unseen what somebody else stored meanwhile. */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ApiError } from '../api-client.ts'
import { useAttempt } from '../confirm.tsx'
import { Failed } from '../states.tsx'
import { Differences } from './differences.tsx'
import { listDifferences, mergeChanges } from './json-text.ts'
import { useUnsaved } from './unsaved.tsx'

/** A version with what its editor shows; version 0 is not stored yet. */
export interface Content<C> { version: number, content: C }

export interface DraftBase<C> {
  base: Content<C>
  draft: C | undefined
  /** The draft says the same as its base. */
  isStored: boolean
  /** What somebody else stored meanwhile, and the draft would undo; undefined: nothing. */
  newer: Content<C> | undefined
  /** Why the draft was refused for that; empty: it was not sent. */
  reason: string
  save: () => Promise<void>
  isSaving: boolean
  error: ApiError | undefined
  /** Puts what the draft changes on top of what somebody else stored. */
  rebase: () => void
  discard: () => void
}

interface DraftOptions<C> {
  newest: Content<C>
  draft: C | undefined
  change: (content: C) => void
  /** Stores the draft on top of this version. Returns the stored definition, or undefined after showing an error. */
  store: (version: number) => Promise<Content<C> | undefined>
  reload: () => void
  /** Whether something else on the page is not saved. */
  isTouched?: boolean
}

/**
 * Follows what a draft is based on, and stores it. A draft that nobody touched becomes the newest version; one with
 * changes keeps them, and asks before the page is left.
 */
export function useDraftBase<C extends object> ({ newest, draft, change, store, reload, isTouched = false }: DraftOptions<C>): DraftBase<C> {
  const [base, setBase] = useState(newest)
  const [reason, setReason] = useState('')
  const { isBusy, error, attempt } = useAttempt()
  const says = ({ content }: Content<C>): boolean => draft !== undefined && listDifferences(content, draft, 1).length === 0
  const isStored = says(base)
  const isOutdated = newest.version > base.version
  const isKept = isOutdated && !isStored && !says(newest)
  useEffect(() => {
    if (!isOutdated || isKept) return
    setBase(newest)
    if (isStored) change(newest.content)
  }, [isOutdated, isKept])
  useUnsaved(!isStored || isTouched)
  const save = async (): Promise<void> => {
    if (isBusy || isKept) return
    setReason('')
    await attempt(async () => {
      const stored = await store(base.version).catch((cause: unknown) => {
        if (!(cause instanceof ApiError) || cause.code !== 'conflict') throw cause
        // What somebody else stored is read, and shown as the newer version.
        setReason(cause.message)
        reload()
        return undefined
      })
      if (stored === undefined) return
      setBase(stored)
      reload()
    })
  }
  const rebase = (): void => {
    setBase(newest)
    if (draft !== undefined) change(mergeChanges(base.content, draft, newest.content))
  }
  const discard = (): void => {
    setBase(newest)
    change(newest.content)
  }
  return { base, draft, isStored, newer: isKept ? newest : undefined, reason, save, isSaving: isBusy, error, rebase, discard }
}

interface SaveDraftProps<C> {
  of: DraftBase<C>
  action: string
  children?: ComponentChildren
}

/** The end of a draft's form: unsaved changes, a newer version of another user, and the buttons. */
export function SaveDraft<C extends object> ({ of, action, children }: SaveDraftProps<C>) {
  const { base, draft, isStored, newer, reason, error, isSaving } = of
  const isNew = base.version === 0
  return (
    <>
      {!isNew && !isStored && draft !== undefined && (
        <>
          <h3>Unsaved changes</h3>
          <Differences before={base.content} after={draft} label='Unsaved changes' />
        </>
      )}
      {newer !== undefined && (
        <div class='conflict' role='alert'>
          <p><strong>Not saved: another user has saved version {newer.version}.</strong> {reason}</p>
          <h3>Changes from version {base.version} to {newer.version}</h3>
          <Differences before={base.content} after={newer.content} label={`From version ${base.version} to ${newer.version}`} />
          <p class='actions'>
            <button type='button' onClick={of.discard}>Discard my draft</button>
            <button type='button' class='primary' onClick={of.rebase}>Continue my draft on version {newer.version}</button>
          </p>
        </div>
      )}
      {error !== undefined && <Failed error={error} onRetry={() => { void of.save() }} />}
      <p class='actions'>
        {!isNew && <span class='hint' role='status'>{isStored ? `Identical to version ${base.version}.` : `Not saved yet, on version ${base.version}.`}</span>}
        {children}
        {!isNew && <button type='button' disabled={isStored} onClick={of.discard}>Discard</button>}
        <button type='submit' class={isStored && !isNew ? '' : 'primary'} disabled={(isStored && !isNew) || isSaving || newer !== undefined}>{action}</button>
      </p>
    </>
  )
}
