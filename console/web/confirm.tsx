import type { ComponentChildren } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { ApiError, request } from './api-client.ts'
import { showText } from './format.ts'
import { Dialog, Failed, Form } from './states.tsx'

interface FormDialogProps<T> {
  title: string
  action: ComponentChildren
  children: ComponentChildren
  /** Does it; the dialog closes when it has worked, and shows why when it has not. */
  onConfirm: () => Promise<T>
  /** Called with the result, before the dialog closes. */
  onDone?: (done: T) => void
  onClose: () => void
  /** Whether the form may be sent; default true. */
  isReady?: boolean
  /** Of the form; default: its fields below each other. */
  class?: string
  isDangerous?: boolean
  isWide?: boolean
}

export function FormDialog<T> (
  { title, action, children, onConfirm, onDone, onClose, isReady = true, class: style = 'stacked', isDangerous = false, isWide = false }: FormDialogProps<T>
) {
  const { isBusy, error, attempt } = useAttempt()
  const confirm = async (): Promise<void> => {
    const isDone = await attempt(async () => {
      const done = await onConfirm()
      onDone?.(done)
    })
    if (isDone) onClose()
  }
  return (
    <Dialog title={title} onClose={onClose} isWide={isWide}>
      <Form class={style} onSubmit={async () => { if (isReady && !isBusy) await confirm() }}>
        {children}
        {error !== undefined && <Failed error={error} onRetry={() => { void confirm() }} />}
        <p class='actions'>
          <button type='button' onClick={onClose}>Cancel</button>
          <button type='submit' class={isDangerous ? 'primary danger' : 'primary'} disabled={isBusy || !isReady}>{action}</button>
        </p>
      </Form>
    </Dialog>
  )
}

type AskProps<T> = Omit<FormDialogProps<T>, 'isReady' | 'class' | 'isDangerous'>

/** Asks once before something that can be taken back. */
export function Ask<T> (props: AskProps<T>) {
  return <FormDialog {...props} class='' />
}

/** Asks for a typed word before something that cannot be taken back: nobody types one by accident. */
export function Confirm<T> ({ word, children, ...props }: AskProps<T> & { word: string }) {
  const [typed, setTyped] = useState('')
  return (
    <FormDialog {...props} class='' isReady={typed === word} isDangerous>
      {children}
      <label>
        Type <code>{word}</code> to go on
        <input value={typed} autocomplete='off' onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
    </FormDialog>
  )
}

interface DeleteDialogProps {
  name: string
  path: string
  children: ComponentChildren
  onDone: () => void
  onClose: () => void
}

/** Asks before the API deletes something whose loss is small. */
export function DeleteDialog ({ name, path, children, ...props }: DeleteDialogProps) {
  return (
    <Ask title={`Delete ${showText(name, 80)}?`} action='Delete' onConfirm={async () => await request(path, { method: 'DELETE' })} {...props}>
      <p>{children}</p>
    </Ask>
  )
}

interface TextFieldsProps {
  texts: Readonly<Record<string, string>>
  /** Labels that differ from those of most objects. */
  labels?: Readonly<Record<string, string>>
  onChange: (texts: Record<string, string>) => void
}

const LABELS: Record<string, string> = { name: 'Name', event: 'Name of the event', description: 'Description', owner: 'Owner: a person or a team' }
const MOST: Record<string, number> = { name: 200, event: 200, description: 3000, owner: 400 }

export function TextFields ({ texts, labels = {}, onChange }: TextFieldsProps) {
  return (
    <>
      {Object.entries(texts).map(([field, value]) => {
        const onInput = (event: { currentTarget: { value: string } }): void => onChange({ ...texts, [field]: event.currentTarget.value })
        const shared = { value, onInput, maxLength: MOST[field] }
        return (
          <label key={field}>
            {labels[field] ?? LABELS[field]}{' '}
            {field === 'description' ? <textarea rows={2} {...shared} /> : <input required={field !== 'owner'} list={field === 'event' ? 'event-names' : undefined} {...shared} />}
          </label>
        )
      })}
    </>
  )
}

interface TextsDialogProps<T> extends Pick<FormDialogProps<T>, 'title' | 'onClose'>, Partial<Pick<FormDialogProps<T>, 'action' | 'children' | 'onDone'>> {
  texts: Readonly<Record<string, string>>
  save: (texts: Record<string, string>) => Promise<T>
}

/** A dialog for a name, which must not be blank, a description and an owner. */
export function TextsDialog<T> ({ texts: before, save, action = 'Save', children, ...props }: TextsDialogProps<T>) {
  const [texts, setTexts] = useState({ ...before })
  return (
    <FormDialog {...props} action={action} isReady={texts['name']?.trim() !== ''} onConfirm={async () => await save({ ...texts, ...texts['name'] !== undefined && { name: texts['name'].trim() } })}>
      <TextFields texts={texts} onChange={setTexts} />
      {children}
    </FormDialog>
  )
}

/** Something that a button does; `failure` says why the last try failed, and repeats it. */
export function useAction (work: () => Promise<void>) {
  const { isBusy, error, attempt } = useAttempt()
  const run = (): void => { void attempt(work) }
  return { isBusy, run, failure: error !== undefined && <Failed error={error} onRetry={run} /> }
}

export interface Attempt {
  isBusy: boolean
  error: ApiError | undefined
  /** Why the last one failed, for several of them: its button repeats the one that did. */
  failure: ComponentChildren
  /** @returns whether it worked. */
  attempt: (work: () => Promise<void>) => Promise<boolean>
}

/** Something that a button does and that may fail. */
export function useAttempt (): Attempt {
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  const last = useRef<() => Promise<void>>(undefined)
  async function attempt (work: () => Promise<void>): Promise<boolean> {
    last.current = work
    setBusy(true)
    setError(undefined)
    try {
      await work()
      return true
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, 'console_error', String(cause)))
      return false
    } finally {
      setBusy(false)
    }
  }
  const retry = (): void => { if (last.current !== undefined) void attempt(last.current) }
  return { isBusy, error, failure: error !== undefined && <Failed error={error} onRetry={retry} />, attempt }
}

/** A text that is to be copied, in one piece: chosen by a click or with the focus. */
export function Copyable ({ text, label }: { text: string, label: string }) {
  const [isCopied, setCopied] = useState(false)
  // Without TLS browsers have no clipboard; the text can be selected.
  const mayCopy = 'clipboard' in navigator
  const copy = (): void => { void navigator.clipboard.writeText(text).then(() => setCopied(true), () => setCopied(false)) }
  return (
    <div class='copyable'>
      <pre aria-label={label} tabIndex={0}>{text}</pre>
      {mayCopy && <button type='button' onClick={copy}>{isCopied ? 'Copied' : 'Copy'}<span class='hidden'> {label}</span></button>}
    </div>
  )
}

/** A secret that was just made, which no screen shows again. */
export function ShownOnce (
  { title, text, label, children, onClose }: { title: string, text: string, label: string, children: ComponentChildren, onClose: () => void }
) {
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{children}</p>
      <Copyable key={text} text={text} label={label} />
      <p class='actions'><button type='button' class='primary' onClick={onClose}>I have copied it</button></p>
    </Dialog>
  )
}
