import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Session } from '../api-types.ts'
import { useAttempt } from './confirm.tsx'
import { useAnswer } from './load.ts'
import { findLogin, invitation, linkRefusal, login, PASSWORD_CHARACTERS } from './session.ts'

/** Asks for the login over a page whose session has ended. Nothing of the page is seen, reached or read out until it goes on. */
export function LoginAgain ({ of }: { of: Session }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const open = (): void => dialog.current?.showModal()
  useLayoutEffect(() => {
    const [over, end] = [dialog.current, new AbortController()]
    open()
    addEventListener('focus', () => { void findLogin() }, end)
    return () => {
      end.abort()
      // The focus returns to where it was.
      over?.close()
    }
  }, [])
  return <dialog ref={dialog} class='login' aria-label='Log in again' onCancel={(event) => event.preventDefault()} onClose={open}><Login of={of} /></dialog>
}

/** Asks for a password or a personal API key, once: a session follows. @param props.of  That has ended, and should go on. */
export function Login ({ of }: { of?: Session }) {
  const [key, setKey] = useState('')
  const [isByKey, hadKey] = [key !== '', of?.login === 'key']
  return (
    <Form
      action='Log in'
      onSubmit={async (read) => await login(isByKey ? { personal_api_key: key } : { email: read('email'), password: read('password') })}
    >
      {of !== undefined && <p>Your session has ended. Log in as {of.email} to go on where you were; unsaved changes are lost when someone else logs in.</p>}
      <AtProvider query={`?to=${encodeURIComponent(location.pathname + location.search)}`} isBeside={of !== undefined}>Log in with your identity provider</AtProvider>
      <label for='email'>E-mail</label>
      <input id='email' name='email' type='email' required={!isByKey} defaultValue={of?.email} autofocus={of === undefined} autocomplete='username' />
      <label for='password'>Password</label>
      <input id='password' name='password' type='password' required={!isByKey} minLength={PASSWORD_CHARACTERS} autofocus={of !== undefined && !hadKey} autocomplete='current-password' />
      <p class='hint'>or</p>
      <label for='key'>Personal API key</label>
      <input
        id='key' type='password' autofocus={hadKey} autocomplete='off' placeholder='phx_…' aria-describedby='key-help'
        value={key} onInput={(event) => setKey(event.currentTarget.value)}
      />
      <p id='key-help' class='hint'>
        Printed by <code>npm start</code>, or created with <code>npx millrace keys create</code>. The key determines your rights.
      </p>
    </Form>
  )
}

/** Asks somebody who was invited, or has a new link, for a password. */
export function Join ({ token }: { token: string }) {
  return (
    <Form
      action='Join' onSubmit={async (read) => {
        await login({ invitation: token, password: read('password'), first_name: read('name') })
        invitation.value = undefined
      }}
    >
      <p>Choose a password for your account.</p>
      <label for='name'>First name, if it is new</label>
      <input id='name' name='name' autofocus maxLength={150} autocomplete='given-name' />
      <label for='password'>Password</label>
      <input id='password' name='password' type='password' required minLength={PASSWORD_CHARACTERS} autocomplete='new-password' aria-describedby='password-help' />
      <p id='password-help' class='hint'>At least {PASSWORD_CHARACTERS} characters, five of them different.</p>
      <AtProvider query={`?invitation=${token}`}>Join with your identity provider</AtProvider>
      <button type='button' class='quiet' onClick={() => { invitation.value = undefined }}>Log in instead</button>
    </Form>
  )
}

/** Leads to the identity provider, where there is one. @param props.isBeside  In another tab, as this page would be lost. */
function AtProvider ({ query, isBeside = false, children }: { query: string, isBeside?: boolean, children: ComponentChildren }) {
  const { value } = useAnswer<{ provider: boolean }>('/console/login')
  return value?.provider === true ? <a class='button primary' href={`/console/login/oidc${query}`} target={isBeside ? '_blank' : undefined} rel='noreferrer'>{children}{isBeside && ', in another tab'}</a> : null
}

interface FormProps {
  action: string
  /** @param read  The text of a field. */
  onSubmit: (read: (field: string) => string) => Promise<void>
  children: ComponentChildren
}

function Form ({ action, onSubmit, children }: FormProps) {
  const { isBusy, error, attempt } = useAttempt()
  const refusal = error?.message ?? linkRefusal.value
  async function submit (event: SubmitEvent & { currentTarget: HTMLFormElement }): Promise<void> {
    event.preventDefault()
    const fields = new FormData(event.currentTarget)
    await attempt(async () => await onSubmit((field) => String(fields.get(field) ?? '')))
  }
  return (
    <>
      <h1>Millrace</h1>
      <form onSubmit={(event) => { void submit(event) }}>
        {children}
        {refusal !== undefined && <p role='alert' class='error'>{refusal}</p>}
        <button type='submit' class='primary' disabled={isBusy}>{action}</button>
      </form>
    </>
  )
}
