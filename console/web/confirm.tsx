import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { ApiError } from './api-client.ts'
import { Dialog, Failed } from './states.tsx'

export interface ConfirmProps {
  title: string
  /** What is to be typed: nobody does that by accident. */
  word: string
  /** On the button. */
  action: string
  /** What will happen. */
  children: ComponentChildren
  /** Does it; the dialog closes when it has worked, and shows why when it has not. */
  onConfirm: () => Promise<void>
  onClose: () => void
}

/** Asks for a typed word before something that cannot be taken back. */
export function Confirm ({ title, word, action, children, onConfirm, onClose }: ConfirmProps) {
  const [typed, setTyped] = useState('')
  const { isBusy, error, attempt } = useAttempt()
  const confirm = async (): Promise<void> => { if (await attempt(onConfirm)) onClose() }
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (typed === word && !isBusy) void confirm()
        }}
      >
        <label>
          Type <code>{word}</code> to go on
          <input value={typed} autocomplete='off' onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
        {error !== undefined && <Failed error={error} onRetry={() => { void confirm() }} />}
        <p class='actions'>
          <button type='button' onClick={onClose}>Cancel</button>
          <button type='submit' class='primary danger' disabled={isBusy || typed !== word}>{action}</button>
        </p>
      </form>
    </Dialog>
  )
}

/** Asks once before something that can be taken back. */
export function Ask ({ title, action, children, onConfirm, onClose }: Omit<ConfirmProps, 'word'>) {
  const { isBusy, error, attempt } = useAttempt()
  const confirm = async (): Promise<void> => { if (await attempt(onConfirm)) onClose() }
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {error !== undefined && <Failed error={error} onRetry={() => { void confirm() }} />}
      <p class='actions'>
        <button type='button' onClick={onClose}>Cancel</button>
        <button type='button' class='primary' disabled={isBusy} onClick={() => { void confirm() }}>{action}</button>
      </p>
    </Dialog>
  )
}

export interface Attempt {
  isBusy: boolean
  /** Why the last one failed. */
  error: ApiError | undefined
  /** @returns whether it worked. */
  attempt: (work: () => Promise<void>) => Promise<boolean>
}

/** Something that a button does and that may fail. */
export function useAttempt (): Attempt {
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()
  async function attempt (work: () => Promise<void>): Promise<boolean> {
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
  return { isBusy, error, attempt }
}

/** A text that is to be copied, in one piece: chosen by a click or with the focus. */
export function Copyable ({ text, label }: { text: string, label: string }) {
  const [isCopied, setCopied] = useState(false)
  // Without TLS browsers have no clipboard; the text can be selected.
  const mayCopy = 'clipboard' in navigator
  return (
    <div class='copyable'>
      <pre aria-label={label} tabIndex={0}>{text}</pre>
      {mayCopy && (
        <button
          type='button'
          onClick={() => { void navigator.clipboard.writeText(text).then(() => setCopied(true), () => setCopied(false)) }}
        >
          {isCopied ? 'Copied' : 'Copy'}<span class='hidden'> {label}</span>
        </button>
      )}
    </div>
  )
}
